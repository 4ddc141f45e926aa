"""How tests start vLLM: small, and the same wherever."""

from __future__ import annotations

VLLM_ARGUMENTS = (
    *("--dtype", "float32", "--enforce-eager", "--max-model-len", "512"),
    *("--kv-cache-memory-bytes", str(128 * 1024**2), "--max-num-seqs", "64"),
)
