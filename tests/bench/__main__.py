"""`make bench`: every benchmark in turn; exit status 1 when one missed its limit."""

from __future__ import annotations

import subprocess
import sys

BENCHMARKS = ("bench_push", "bench_queue", "bench_index", "bench_lists", "bench_gateway", "bench_evals", "bench_backup")


def main() -> int:
    """Run them one after the other, so that they do not disturb each other."""
    missed = []
    for name in BENCHMARKS:
        print(f"== {name}", flush=True)
        if subprocess.run([sys.executable, "-m", f"tests.bench.{name}"], check=False).returncode != 0:
            missed.append(name)
    print("all within their limits" if not missed else f"missed: {', '.join(missed)}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
