"""`make bench-train`: our learner against a naive padded one and against TRL 1.16's, on the same rollouts and loss.

    python -m tests.bench.bench_train [--pairs 5] [--only short-padded ...] [--trl PYTHON] [--results FILE]
Forward and backward of one optimiser step, each in a process of its own with one thread; process CPU time, sides taking
turns; memory is the process's peak above the loaded model. With --results, measurements are added to those in the file,
so that a long benchmark can be done in pieces. Without --trl an environment with TRL is made in a temporary folder.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TRL = ("trl==1.16.0", "peft==0.21.2", "transformers==5.19.0", "torch==2.13.0")
MEMORY_LIMIT = 0.25


@dataclass(frozen=True)
class Case:
    """One comparison: our CPU time must be at most 1 / `times` of the other's."""

    shape: str
    other: str
    times: float


CASES = {
    "short-padded": Case("short", "padded", 3.5),
    "shared-padded": Case("shared", "padded", 5.0),
    "short-trl": Case("short", "trl", 8.0),
}


def make_trl(folder: Path) -> Path:
    """An environment with TRL; its interpreter."""
    uv = Path(sys.executable).parent / "uv"
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, folder], check=True)
    python = folder / "bin" / "python"
    links = subprocess.run([sys.executable, "-m", "pip", "config", "list"], check=True, capture_output=True, text=True)
    found = [line.partition("=")[2].strip("'\" ") for line in links.stdout.splitlines() if "find-links" in line]
    more = [part for link in found[:1] for part in ("--find-links", link)]
    subprocess.run([uv, "pip", "install", "--quiet", "--python", python, *more, *TRL], check=True)
    return python


def measure(python: Path | str, module: str, *arguments: str, threads: int = 1) -> dict[str, Any]:
    """Run one side; its RESULT line."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
    command = [str(python), "-m", f"tests.bench.{module}", *arguments]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT "))
    result: dict[str, Any] = json.loads(line.removeprefix("RESULT "))
    return result


def measure_case(case: Case, trl: Path | None) -> dict[str, dict[str, Any]]:
    """One pair."""
    ours = measure(sys.executable, "train_side", "ours", case.shape)
    if case.other == "trl":
        assert trl is not None
        return {"ours": ours, "other": measure(trl, "train_trl", case.shape)}
    return {"ours": ours, "other": measure(sys.executable, "train_side", case.other, case.shape)}


def report(name: str, pairs: list[dict[str, dict[str, Any]]]) -> bool:
    """Print a case's medians; whether it is within its limits."""
    case = CASES[name]
    median = {
        (side, key): statistics.median(pair[side][key] for pair in pairs)
        for side in ("ours", "other")
        for key in ("seconds", "bytes", "loss")
    }
    times = statistics.median(pair["other"]["seconds"] / pair["ours"]["seconds"] for pair in pairs)
    memory = median["ours", "bytes"] / median["other", "bytes"]
    good = times >= case.times and memory <= MEMORY_LIMIT
    print(
        f"{name}: {len(pairs)} pairs; ours {median['ours', 'seconds']:.1f} s CPU, {case.other} "
        f"{median['other', 'seconds']:.1f} s, {times:.2f} times (at least {case.times}); memory "
        f"{median['ours', 'bytes'] / 1e6:.0f} MB of {median['other', 'bytes'] / 1e6:.0f} MB, {memory:.2f} "
        f"(at most {MEMORY_LIMIT}); loss {median['ours', 'loss']:.6f} and {median['other', 'loss']:.6f}; "
        f"{'within' if good else 'MISSED'}",
        flush=True,
    )
    return good


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--trl", type=Path, help="interpreter of an environment with TRL 1.16")
    parser.add_argument("--results", type=Path)
    options = parser.parse_args()
    done: dict[str, list[dict[str, dict[str, Any]]]] = defaultdict(list)
    if options.results and options.results.exists():
        done.update(json.loads(options.results.read_text()))
    with ExitStack() as stack:
        trl: Path | None = options.trl
        if trl is None and options.pairs and "short-trl" in options.only:
            trl = make_trl(Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-train-"))) / "trl")
        for _ in range(options.pairs):
            for name in options.only:
                done[name].append(measure_case(CASES[name], trl))
                if options.results:
                    options.results.write_text(json.dumps(done))
    results = [report(name, done[name]) for name in options.only if done[name]]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
