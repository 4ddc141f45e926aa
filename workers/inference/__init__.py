"""Engines that serve local model directories: `torch` for laptops, `vllm` for GPUs (and its CPU build)."""
