"""How long from `hub push` to `ready`? `python -m tests.bench.bench_push [--repeat 5]` (needs bubblewrap and an index).

A real embedded hub, once its tiny model is made; a 100 KB package of v0 classes is pushed once to fill the caches, then
with a new version each time. Prints each time and the median; exit status 1 when the median is over 5 seconds.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path

from infra.demo.hub import ROOT, Cli, Hub
from workers.inference.process import free_port

LIMIT_SECONDS = 5.0


def package(folder: Path) -> Path:
    """reverse-text with 100 KB of data that does not compress."""
    target = folder / "reverse-text"
    target.mkdir()
    source = ROOT / "environments" / "reverse-text"
    for name in ("reverse_text.py", "README.md", "pyproject.toml"):
        (target / name).write_text((source / name).read_text())
    noise = random.Random(0).randbytes(75_000).hex()
    (target / "reverse_text.py").write_text((source / "reverse_text.py").read_text() + f'\nNOISE = "{noise}"\n')
    return target


def main() -> int:
    """Start a hub, push, time, stop it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-push-") as folder:
        hub = Hub(Path(folder) / "data", free_port())
        hub.start()
        try:
            cli, path = Cli(hub, hub.token("bench")), package(Path(folder))
            print("filling the caches ...", flush=True)
            cli.run("push", str(path))
            hub.manage("tiny_model")  # wait for it: its warm-up takes a core
            seconds = [timed(cli, path) for _ in range(arguments.repeat)]
        finally:
            hub.stop()
    median = statistics.median(seconds)
    print(
        f"push to ready: {', '.join(f'{s:.1f}' for s in seconds)} s; median {median:.1f} s (limit {LIMIT_SECONDS:.0f})"
    )
    return 0 if median <= LIMIT_SECONDS else 1


def timed(cli: Cli, path: Path) -> float:
    """One push of the next version, wall seconds."""
    start = time.monotonic()
    done = cli.run("push", str(path), "--bump", "patch")
    assert done["version"]["state"] == "ready"
    return time.monotonic() - start


if __name__ == "__main__":
    sys.exit(main())
