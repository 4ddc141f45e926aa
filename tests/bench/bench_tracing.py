"""What traces cost an evaluation: its rollouts a second, and its worker's CPU time, with and without them.

    python -m tests.bench.bench_tracing [--rollouts 1024] [--concurrency 64] [--repeat 3]
The evaluation is bench_evals' hosted one. Both sides take turns; the collector is a process of its own, which throws
spans away. All rollouts are traced, not only the first thousand.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import Process
from pathlib import Path
from unittest import mock

from envhub.client.telemetry.tracing import start_tracing, stop_tracing

from tests.bench.bench_evals import LEGACY, hosted, stub

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


class Sink(BaseHTTPRequestHandler):
    """Takes everything."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def collector() -> Iterator[str]:
    """Its address."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    process = Process(target=server.serve_forever, daemon=True)
    process.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        process.terminate()


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rollouts", type=int, default=1024)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    rates: dict[bool, list[float]] = {False: [], True: []}
    cpu: dict[bool, list[float]] = {False: [], True: []}
    every = mock.patch.dict(os.environ, WORKER_TRACE_ROLLOUTS=str(10 * options.rollouts))
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, stub(0.05) as url, collector() as address, every:
        python = LEGACY.install(Path(folder) / LEGACY.name)
        for traced in (False, True) * options.repeat:
            if traced:
                os.environ[ENDPOINT] = address
                start_tracing("bench")
            began = time.process_time()
            work = hosted(LEGACY, python, url, options.rollouts, options.concurrency, Path(folder) / "worker")
            rates[traced].append(asyncio.run(work))
            stop_tracing(10)
            os.environ.pop(ENDPOINT, None)
            cpu[traced].append(1000 * (time.process_time() - began) / options.rollouts)
    for traced, name in ((False, "without traces"), (True, "with traces")):
        print(
            f"{name}: {statistics.median(rates[traced]):.1f} rollouts/s, "
            f"worker {statistics.median(cpu[traced]):.2f} ms CPU a rollout"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
