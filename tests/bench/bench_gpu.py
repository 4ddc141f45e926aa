"""`make bench-gpu`: the learner on this machine's GPU: do its kernels agree, and how near to the limit does it train.

    python -m tests.bench.bench_gpu [--results FILE] [--profile] [--only "0.6B lora 4k" ...] [--minutes 7.5] [--small]
Qwen3's shapes with random weights in bf16, the learner's own steps (Learner.train). Needs a CUDA build of torch and no
network. LIMITS: tokens per second at half of the 790 TFLOP/s of bf16 products that an H200 was measured to do. --small:
the same on a CPU with tiny shapes, to see that all of it runs. Results are written after each case.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import torch
import transformers

from tests.bench.gpu_agreement import MIX, MODEL, agreement, older_torch
from tests.bench.gpu_promises import promises
from tests.bench.gpu_shapes import MIXES, QWEN3, SMALL, SMALL_MIXES
from tests.bench.gpu_speed import Case, forget, matmul_peak, measure
from workers.training.learner.errors import LearnerError
from workers.training.supervise.learner import ALLOCATOR

LIMITS = {
    "0.6B full 4k": 79_000, "0.6B lora 4k": 104_000, "0.6B full 16k": 43_000, "0.6B lora 16k": 49_000,
    "1.7B full 4k": 34_000, "1.7B lora 4k": 48_000, "1.7B full 16k": 25_000, "1.7B lora 16k": 32_000,
    "4B full 4k": 14_200, "4B lora 4k": 20_000, "4B full 16k": 10_200, "4B lora 16k": 12_900,
}  # fmt: skip
PRODUCT, SMALL_PRODUCT = 8192, 256


def cases(*, small: bool) -> list[Case]:
    """Short rollouts first: should time run out, every model has been seen."""
    models, mixes = (SMALL, SMALL_MIXES) if small else (QWEN3, MIXES)
    return [
        Case(name, sizes, mode, mix) for mix in mixes for name, sizes in models.items() for mode in ("lora", "full")
    ]


def machine(device: torch.device) -> dict[str, str]:
    """What was measured."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    return {"device": name, "torch": torch.__version__, "transformers": transformers.__version__}


def words(result: dict[str, Any], limit: int | None) -> str:
    """One case's line."""
    for outcome in ("skipped", "failed"):
        if outcome in result:
            return f"{result['case']}: {outcome}, {result[outcome]}"
    beside = f" (at half of an H200: {limit})" if limit else ""
    return (
        f"{result['case']}: {result['tokens_per_s']:.0f} tokens/s{beside}, {result['share_of_peak']:.1%} of the peak, "
        f"{result['peak_memory'] / 1e9:.2f} GB (planned {result['planned_memory'] / 1e9:.2f}), "
        f"{result['micro_batches']} micro-batches of {result['token_budget']}, {result['recomputed_layers']} layers "
        f"recomputed, {result['waits']} waits"
    )


def run(options: argparse.Namespace, device: torch.device) -> bool:
    """All of it; whether the kernels agree and every case that fits was trained."""
    ends = time.monotonic() + 60 * options.minutes
    torch.set_num_threads(1)  # as the learner has it
    results: dict[str, Any] = {"machine": machine(device), "agreement": agreement(device), "cases": []}
    results["matmul_flops"] = peak = matmul_peak(device, SMALL_PRODUCT if options.small else PRODUCT)
    results["promises"] = promises(*(SMALL["small"], SMALL_MIXES[0]) if options.small else (MODEL, MIX), device)
    print(json.dumps({name: results[name] for name in results if name != "cases"}), flush=True)
    forget(device)
    for case in cases(small=options.small):
        if options.only and case.name not in options.only:
            continue
        result: dict[str, Any] = {"case": case.name, "skipped": "out of time"}
        if time.monotonic() < ends:
            result = measured(case, device, peak, profile=options.profile)
        forget(device)
        results["cases"].append(result)
        print(words(result, LIMITS.get(case.name)), flush=True)
        for name, milliseconds, calls in result.get("profile", ()):
            print(f"  {milliseconds:9.2f} ms {calls:6d} x {name}")
        if options.results:
            options.results.write_text(json.dumps(results, indent=1))
    kept = all(promise is True for promise in results["promises"].values())
    return results["agreement"]["good"] and kept and not any("failed" in result for result in results["cases"])


def measured(case: Case, device: torch.device, peak: float, *, profile: bool) -> dict[str, Any]:
    """A case's figures; one that fails is told, and the others go on."""
    try:
        return measure(case, device, peak, profile=profile)
    except (RuntimeError, TypeError, LearnerError) as error:
        traceback.print_exc()
        return {"case": case.name, "failed": repr(error)[:500]}


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--profile", action="store_true", help="show the operations that take most of a step's time")
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--minutes", type=float, default=7.5, help="no case begins later")
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    if not options.small and not torch.cuda.is_available():
        print("torch sees no GPU here: install its CUDA build (infra/README.md), or try --small", file=sys.stderr)
        return 2
    if not options.small and not ALLOCATOR.keys() <= os.environ.keys():  # read when torch is loaded: begin anew
        os.execve(
            sys.executable, [sys.executable, "-m", "tests.bench.bench_gpu", *sys.argv[1:]], os.environ | ALLOCATOR
        )
    with older_torch():
        good = run(options, torch.device("cpu" if options.small else "cuda", 0))
    print(
        "kernels agree, promises are kept"
        if good
        else "MISSED: kernels do not agree, a promise is broken, or a case failed"
    )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
