"""The vLLM worker extension: load new weights from a directory, and correct bugs of its CPU build (0.32.0).

Loaded in vLLM's worker processes by `--worker-extension-cls hub_vllm.HubWorker`. A refusal is an answer instead of an
exception: nothing was written, and on an exception vLLM's server drops the caller's connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import vllm.lora.ops.torch_ops as operations
import vllm.lora.ops.torch_ops.lora_ops as kernels
import vllm.lora.punica_wrapper.punica_cpu as wrapper
from hub_weight_files import weight_files  # type: ignore[import-not-found]  # beside this file, on PYTHONPATH
from hub_weights import refusal  # type: ignore[import-not-found]
from safetensors import safe_open
from vllm.platforms import current_platform

plain_shrink = kernels.bgmv_shrink


def shrink_without_strays(
    inputs: torch.Tensor, weights: torch.Tensor, output: torch.Tensor, index: torch.Tensor, scaling: float = 1.0
) -> None:
    """Do as bgmv_shrink does, but give rows without an adapter (index -1) zeros, not the last slot's adapter."""
    plain_shrink(inputs, weights, output, index, scaling)
    output[index[: output.shape[0]] < 0] = 0


for module in (kernels, operations, wrapper):
    module.bgmv_shrink = shrink_without_strays


if current_platform.is_cpu():
    from vllm.v1.worker.cpu_model_runner import CPUModelRunner

    plain_gather = CPUModelRunner.sync_and_gather_intermediate_tensors

    def gather_into_buffer(runner: Any, tokens: int, received: Any, sync_self: bool) -> Any:
        """Make the buffer for what earlier layers' hosts send: a warm-up would, but eager models have none."""
        if runner.intermediate_tensors is None:
            runner.intermediate_tensors = runner.model.make_empty_intermediate_tensors(
                batch_size=runner.max_num_tokens, dtype=runner.model_config.dtype, device=runner.device
            )
        return plain_gather(runner, tokens, received, sync_self)

    CPUModelRunner.sync_and_gather_intermediate_tensors = gather_into_buffer


def tensors_of(files: list[Path]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yield every tensor of safetensors files, one at a time."""
    for file in files:
        with safe_open(file, framework="pt") as opened:
            for name in opened.keys():  # noqa: SIM118  not a dict
                yield name, opened.get_tensor(name)


def repack_tied_head(model: Any) -> None:
    """Rebuild the packed copy that the CPU build keeps of a tied output head, because the head is not in the files."""
    head = getattr(model, "lm_head", None)
    if head is not None and getattr(model.config, "tie_word_embeddings", False) and hasattr(head, "cpu_linear"):
        head.weight = model.model.embed_tokens.weight
        head.quant_method.process_weights_after_loading(head)


class HubWorker:
    """Mixed into vLLM's worker. POST /collective_rpc calls its methods while the engine is paused."""

    model_runner: Any
    model_config: Any
    reload_weights: Callable[..., None]

    def hub_reload_weights(self, directory: str) -> dict[str, str]:
        """Replace the base weights, or return under "refused" why not; then the old ones are untouched.

        This uses the worker's own reload: a bare load_weights fails on layers that the CPU build has packed.
        """
        new = Path(directory)
        reason = refusal(new, Path(self.model_config.model))
        if reason:
            return {"refused": reason}
        self.reload_weights(weights_iterator=tensors_of(weight_files(new)))
        repack_tied_head(self.model_runner.model)
        return {}
