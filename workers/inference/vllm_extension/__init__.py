"""Our additions to vLLM: files that run in vLLM's own interpreter, found through PYTHONPATH, without project imports.

hub_vllm is the worker extension, hub_weights checks new weights before anything is written, and hub_weight_files says
which files both read (and the worker measures). hub_vllm_server starts the server as a child that ends with its
parent, or by hub_vllm_part one host's part of an engine on several.
"""
