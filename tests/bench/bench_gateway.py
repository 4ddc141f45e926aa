"""What the gateway adds to the time to the first chunk. `python -m tests.bench.bench_gateway [--streams 500]`

A stub engine streams two chunks a second for ten seconds. So many streams are open all the time: each caller begins
its next when the last has ended, spread evenly; once all are open, those that begin in the next ten seconds are timed,
connecting included. Arrivals are staggered (50 a second at 500 streams), as those of many users are, and the same on
both sides: straight to the stub and through a real hub (uvicorn; SQLite, or HUB_DATABASE_URL), which take turns in the
order direct, gateway, gateway, direct. Stub, hub and callers are a process each. What all wait for a busy machine is in
both medians; the hub's CPU time for a stream hardly depends on it. Exit status 1 when the medians differ by five
milliseconds or more.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from workers.inference.process import free_port

ROOT = Path(__file__).parents[2]
LIMIT_MS = 5.0
CHUNKS, PAUSE = 20, 0.5
SECONDS = CHUNKS * PAUSE


@contextmanager
def process(*arguments: str, env: dict[str, str], read: bool = False) -> Iterator[subprocess.Popen[str]]:
    """A Python process that ends with the block."""
    output = subprocess.PIPE if read else None
    started = subprocess.Popen([sys.executable, *arguments], stdout=output, text=True, cwd=ROOT, env=env)
    try:
        yield started
    finally:
        started.terminate()
        started.wait(30)


def manage(env: dict[str, str], *arguments: str) -> str:
    """One command of the hub; its output."""
    command = [sys.executable, "manage.py", *arguments]
    return subprocess.run(command, cwd=ROOT, env=env, check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


def register(url: str, token: str, engine: str) -> None:
    """Wait for the hub, and make the model bench/stub."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        with suppress(httpx.HTTPError):
            if httpx.get(f"{url}/healthz").status_code == 200:
                break
        time.sleep(0.2)
    body = {"name": "stub", "variants": [{"base_url": engine, "model": "m"}], "test": False}
    put = httpx.put(f"{url}/api/v1/models/bench/stub", json=body, headers={"Authorization": f"Bearer {token}"})
    put.raise_for_status()


def request_bytes(base_url: str, token: str) -> tuple[str, int, bytes]:
    """(host, port, the request)."""
    parts = urlsplit(base_url)
    body = json.dumps({"model": "bench/stub", "stream": True, "messages": [{"role": "user", "content": "hi"}]})
    head = f"POST {parts.path}/chat/completions HTTP/1.1\r\nhost: {parts.netloc}\r\ncontent-type: application/json\r\n"
    head += f"authorization: Bearer {token}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    return str(parts.hostname), int(parts.port or 80), (head + body).encode()


async def one_stream(address: tuple[str, int, bytes]) -> float:
    """Seconds to the first chunk; reads to the end."""
    host, port, request = address
    began = time.perf_counter()
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(request)
        await reader.readuntil(b"data:")
        first = time.perf_counter() - began
        async with asyncio.timeout(SECONDS + 30):
            await reader.readuntil(b"[DONE]")
        return first
    finally:
        writer.close()


async def drive(address: tuple[str, int, bytes], streams: int) -> list[float]:
    """Times to the first chunk of what begins while all streams are open."""
    begin, times = time.perf_counter(), []

    async def caller(number: int) -> None:
        for turn in range(2):
            start = begin + number * SECONDS / streams + turn * SECONDS
            await asyncio.sleep(max(0.0, start - time.perf_counter()))
            first = await one_stream(address)
            if turn:
                times.append(first)

    await asyncio.gather(*(caller(number) for number in range(streams)))
    return times


def cpu_seconds(pid: int) -> float:
    """User and system time of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def line(name: str, times: list[float], note: str) -> float:
    """Print one side; its median in ms."""
    values = sorted(1000 * seconds for seconds in times)
    p50, p95 = statistics.median(values), values[int(0.95 * len(values))]
    print(f"{name}: first chunk p50 {p50:.1f} ms, p95 {p95:.1f} ms of {len(values)} streams{note}", flush=True)
    return p50


def compare(hub: int, sides: dict[str, tuple[str, int, bytes]], streams: int, rounds: int) -> float:
    """What the hub adds to the median, in ms."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    cpu = 0.0
    for number in range(rounds):
        for name in sorted(sides, reverse=number % 2 == 1):
            before = cpu_seconds(hub)
            times[name] += asyncio.run(drive(sides[name], streams))
            cpu += cpu_seconds(hub) - before if name == "gateway" else 0.0
    direct = line("direct", times["direct"], "")
    each = 1000 * cpu / (rounds * 2 * streams)
    through = line("gateway", times["gateway"], f"; the hub used {each:.2f} ms CPU a stream of {CHUNKS} chunks")
    return through - direct


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    stub = ("-m", "tests.fakes.token_stream", "--chunks", str(CHUNKS), "--pause", str(PAUSE))
    with tempfile.TemporaryDirectory(prefix="bench-gateway-") as folder:
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        env = {**os.environ, "HUB_DATA": folder, "HUB_BASE_URL": url}
        manage(env, "migrate", "-v", "0")
        token = manage(env, "create_token", "bench")
        serve = ("-m", "uvicorn", "hub.config.asgi:application", "--port", str(port), "--lifespan", "off")
        quiet = ("--no-access-log", "--log-level", "warning")
        with process(*stub, env=env, read=True) as engine, process(*serve, *quiet, env=env) as hub:
            assert engine.stdout is not None
            base = engine.stdout.readline().strip()
            register(url, token, base)
            sides = {
                "direct": request_bytes(base, token),
                "gateway": request_bytes(f"{url}/inference/v1", token),
            }
            added = compare(hub.pid, sides, options.streams, options.rounds)
    load = os.getloadavg()[0]
    print(f"{options.streams} streams: the gateway adds {added:.1f} ms (limit {LIMIT_MS:.0f}); load {load:.1f}")
    return 0 if added < LIMIT_MS else 1


if __name__ == "__main__":
    sys.exit(main())
