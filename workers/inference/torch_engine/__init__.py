"""A small batched sampler with OpenAI-compatible routes, for laptops and tests.

Started as a subprocess (`python -m workers.inference.torch_engine`) by workers.inference.engines. Serves any causal
language model that transformers loads; sequences join and leave the running batch at every token.
"""
