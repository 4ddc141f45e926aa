"""What do workers and clients cost Redis? `python -m tests.bench.bench_redis [--runs 20] [--fleet 1000]`.

Needs redis-server; each part has its own. Memory: of a queued task, a limited client, a worker's user, from many.
A worker: connections and commands of a real one that idles, and of each run (`--runs 0`: not measured). A fleet:
the connections of that many workers, then a task for each. CPU is Redis' own count, so other load hardly matters. Exit
status 1 when a task of the fleet was lost.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import resource
import socket
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import django

import tests.backends  # noqa: F401  sets HUB_* before Django reads its settings

django.setup()

import redis  # noqa: E402
from django.conf import settings  # noqa: E402
from django.test.utils import override_settings  # noqa: E402
from envhub.protocol.runs import RUN_TASK, own_queue  # noqa: E402

from hub.core.broker_users import admit  # noqa: E402
from hub.core.queue import celery_app, send  # noqa: E402
from hub.core.requests.body_limit import Message, Scope  # noqa: E402
from hub.core.requests.rate_limits import RateLimits  # noqa: E402
from infra.demo.processes import Role, find  # noqa: E402
from tests.e2e import reversing  # noqa: E402
from tests.e2e.stack import Stack, running_stack  # noqa: E402
from tests.fakes.redis_server import RedisServer  # noqa: E402

MANY, USERS, ROUNDS = 2_000, 500, 2_000
IDLE_S, QUIET_S = 30.0, 10.0
CONNECTIONS = 8  # of a worker, as `worker` prints


def main() -> int:
    """Measure all three."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--fleet", type=int, default=1000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bench-redis-") as name:
        folder = Path(name)
        with RedisServer(folder / "memory") as server:
            memory(server)
        with RedisServer(folder / "worker") as server:
            if arguments.runs:
                worker(server, folder / "data", arguments.runs)
        with RedisServer(folder / "fleet", "--maxclients", "20000") as server:
            received = fleet(server, arguments.fleet)
    return 0 if received == arguments.fleet else 1


def memory(server: RedisServer) -> None:
    """Print the bytes of each kind of entry."""
    client = redis.Redis.from_url(server.url)
    hub = settings.HUB.model_copy(update={"broker_url": server.url, "broker_acl": True})
    with override_settings(HUB=hub):
        celery_app.cache_clear()
        queue = own_queue("eval", str(uuid4()))

        def queue_task() -> None:
            task = str(uuid4())
            assert send(RUN_TASK, task, queue=queue, task_id=f"{task}.1.1", label="run.eval", headers={})

        print(f"a queued task: {bytes_of(client, queue_task, MANY):.0f} bytes")
        size = bytes_of(client, lambda: admit(str(uuid4()), "x"), USERS)
        print(f"a worker's user (HUB_BROKER_ACL): {size:.0f} bytes", flush=True)
    with asyncio.Runner() as runner:
        limits = RateLimits(answer_nothing, per_token=100, per_address=0, broker_url=server.url)
        size = bytes_of(client, lambda: runner.run(limits({**REQUEST, "headers": bearer()}, receive, ignore)), MANY)
        print(f"a token or address that was limited within two minutes: {size:.0f} bytes")
        before = calls(client)
        for _ in range(MANY):
            runner.run(limits({**REQUEST, "headers": [(b"authorization", b"Bearer hub_one")]}, receive, ignore))
        print(f"a counted request: {told(calls(client) - before, MANY)}")


REQUEST: Scope = {"type": "http", "path": "/api/v1/environments", "client": None, "headers": []}


def bearer() -> list[tuple[bytes, bytes]]:
    """Of a new token."""
    return [(b"authorization", f"Bearer hub_{uuid4()}".encode())]


async def answer_nothing(scope: Scope, receive: object, send: object) -> None:
    """An application."""


async def receive() -> Message:
    """No body."""
    return {"type": "http.request"}


async def ignore(message: Message) -> None:
    """Whatever is sent."""


def bytes_of(client: redis.Redis, make: Callable[[], object], number: int) -> float:
    """What Redis needs for one, when it has `number` of them."""
    make()
    before = client.info("memory")["used_memory"]
    for _ in range(number):
        make()
    return float(client.info("memory")["used_memory"] - before) / number


def calls(client: redis.Redis) -> Counter[str]:
    """How often each command was called, INFO apart."""
    found = client.info("commandstats")
    return Counter({name.removeprefix("cmdstat_"): each["calls"] for name, each in found.items() if "info" not in name})


def told(counted: Counter[str], divisor: float) -> str:
    """`commands 2.0 (get 1.0, ...)`, those that matter."""
    each = {name: count / divisor for name, count in counted.most_common() if count / divisor >= 0.05}
    named = ", ".join(f"{name} {count:.1f}" for name, count in each.items())
    return f"{counted.total() / divisor:.1f} commands ({named})"


def worker(server: RedisServer, data: Path, runs: int) -> None:
    """Print what a worker and a run cost."""
    client = redis.Redis.from_url(server.url)
    with running_stack(data, {"HUB_BROKER_URL": server.url, "HUB_WORKER_BEAT_SECONDS": "2"}) as stack:
        environment = reversing.push_reverse_text(stack)
        model = stack.register(reversing.slow_endpoint(0.0))
        run(stack, environment, model)
        time.sleep(10)
        held = connections_of(stack, server.port)
        with over(client) as idle:
            time.sleep(IDLE_S)
        with over(client) as busy:
            for _ in range(runs):
                run(stack, environment, model)
        listed = [one for one in client.client_list() if one["name"] != "bench"]
    size = statistics.mean(int(one["tot-mem"]) for one in listed)
    own = busy.calls - Counter({name: int(count * busy.seconds / idle.seconds) for name, count in idle.calls.items()})
    print(f"connections: {dict(held)}, {size:.0f} bytes each")
    print(f"an idle hub with one worker, a second: {told(idle.calls, idle.seconds)}")
    traffic = busy.traffic - idle.traffic * busy.seconds / idle.seconds
    print(f"a run: {told(own, runs)}, {traffic / runs / 1000:.1f} KB over the network", flush=True)


class Span:
    """What happened between two moments."""

    calls: Counter[str]
    seconds: float
    traffic: int  # bytes
    cpu: float  # seconds of Redis


@contextmanager
def over(client: redis.Redis) -> Iterator[Span]:
    """Count what Redis does meanwhile."""
    span = Span()
    before, began, first = calls(client), time.monotonic(), client.info()
    yield span
    last, span.seconds = client.info(), time.monotonic() - began
    span.calls = calls(client) - before
    span.traffic = sum(last[name] - first[name] for name in ("total_net_input_bytes", "total_net_output_bytes"))
    span.cpu = sum(last[name] - first[name] for name in ("used_cpu_user", "used_cpu_sys"))


def run(stack: Stack, environment: str, model: str) -> None:
    """An evaluation of one rollout, to its end."""
    stack.finished(reversing.start(stack, environment, model, num_examples=1, rollouts_per_example=1).id)


def connections_of(stack: Stack, port: int) -> Counter[str]:
    """How many connections to Redis each kind of process holds."""
    remote = f":{port:04X}"
    lines = (line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:])
    inodes = {line[9] for line in lines if line[2].endswith(remote) and line[3] == "01"}
    found: Counter[str] = Counter()
    for role in Role:
        for handle in (handle for pid in find(stack.data, role) for handle in Path(f"/proc/{pid}/fd").iterdir()):
            match = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(handle)) if handle.is_symlink() else None
            found[role.value] += bool(match and match[1] in inodes)
    return found


def fleet(server: RedisServer, workers: int) -> int:
    """Print what connections of so many workers cost, and a task for each; return how many tasks were received."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    client = redis.Redis.from_url(server.url)
    before = client.info("memory")["used_memory"]
    names = [own_queue("eval", str(uuid4())) for _ in range(workers)]
    idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(workers * (CONNECTIONS - 1))]
    consumers = [socket.create_connection(("127.0.0.1", server.port)) for _ in names]
    for one in idle:
        one.sendall(b"PING\r\n")
        one.recv(100)
    for name, one in zip(names, consumers, strict=True):
        one.sendall(f"BRPOP {name} 0\r\n".encode())
    with over(client) as quiet:
        time.sleep(QUIET_S)
    size = client.info("memory")["used_memory"] - before
    print(f"{workers} workers that wait: {len(idle) + workers} connections, {size / 1e6:.0f} MB, ", end="")
    print(f"{quiet.cpu / quiet.seconds:.4f} of a core")
    task, received = "x" * 1000, 0
    with over(client) as busy:
        for name, one in zip(names, consumers, strict=True):
            client.lpush(name, task)
            received += task.encode() in one.recv(4096)
    print(f"a task for each: {received} received, {cost(busy, quiet, workers):.0f} us of Redis' CPU for one")
    with over(client) as busy:
        for _ in range(ROUNDS):
            client.brpop(["nothing"], timeout=0.001)
    print(f"one more idle poll: {cost(busy, quiet, ROUNDS):.0f} us", flush=True)
    for one in (*idle, *consumers):
        one.close()
    return received


def cost(busy: Span, quiet: Span, number: int) -> float:
    """Microseconds of CPU for one of `number`, without what Redis takes anyway."""
    return 1e6 * (busy.cpu - quiet.cpu * busy.seconds / quiet.seconds) / number


if __name__ == "__main__":
    sys.exit(main())
