"""Hosted evaluation throughput against the same environment run bare with its verifiers, on one stub endpoint.

    python -m tests.bench.bench_evals [--concurrency 64 256] [--rollouts 1024] [--repeat 3] [--current-rollouts 128]
legacy: verifiers 0.1.14, bare by `Environment.evaluate`. current: verifiers 0.4.0, bare by its own `vf-eval` with its
`null` harness and `subprocess` runtime, at the concurrency that is best for it (it starts a program for each rollout).
Both sides are timed from the first model call to the last stored (bare: returned) rollout, taking turns; the stub is
a process of its own and answers after 50 ms. The virtual environments are made with uv in a temporary folder. The
worker's own CPU time (interceptor, frames, segments; not the box's) is printed too.
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
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from envhub.protocol.evals.evaluations import EvalPayload, EvaluationConfig
from envhub.protocol.models.catalog import EndpointTarget, OutboundPolicy, TargetVariant
from envhub.protocol.registry.builds import EnvironmentLock
from envhub.protocol.registry.packages import Generation, GenerationEvidence

from tests.fakes.hub import FakeHub, FakeRun
from workers.evals.run import run_evaluation
from workers.runs.execution import execute
from workers.runs.hub import HubClient
from workers.settings import WorkerEnvironment
from workers.venvs import interpreters

ROOT = Path(__file__).parents[2]
EXAMPLES = 64
STOCK_CONCURRENCY = 8  # 2 cores: more is slower
LEAST = {64: 0.8, 256: 1.0}  # hosted / bare, legacy, by concurrency
LEAST_CURRENT = 20.0
BARE = """
import asyncio, os, sys, time
import verifiers as vf
url, examples, rollouts, concurrency = sys.argv[1], *map(int, sys.argv[2:5])
os.environ["KEY"] = "x"
env = vf.load_environment("reverse-text")
client = vf.ClientConfig(api_base_url=url, api_key_var="KEY")
asyncio.run(env.evaluate(client=client, model="stub", sampling_args={}, num_examples=examples,
    rollouts_per_example=rollouts // examples, max_concurrent=concurrency, independent_scoring=True,
    on_progress=lambda *a, **k: None))
print("END", time.time())
os._exit(0)
"""
# fmt: off
STOCK = ("--client.api-key-var", "KEY", "--env.agent.runtime.type", "subprocess", "--env.agent.harness.id", "null",
         "--no-rich", "--no-push", "--run.name", "bench")
# fmt: on


@dataclass(frozen=True)
class Subject:
    """An environment with the release that it runs on."""

    name: str
    release: str
    generation: Generation
    constraints: tuple[str, ...] = ()

    def install(self, folder: Path) -> Path:
        """Its virtual environment's interpreter."""
        uv = Path(sys.executable).parent / "uv"
        subprocess.run([uv, "venv", "--quiet", "--python", interpreters.present()[0].executable, folder], check=True)
        python = folder / "bin" / "python"
        wanted = [f"verifiers=={self.release}", *self.constraints, str(ROOT / "environments" / self.name)]
        install = [str(uv), "pip", "install", "--quiet", "--compile-bytecode", "--python", str(python), *wanted]
        subprocess.run(install, check=True)
        return python

    def payload(self, url: str, rollouts: int, concurrency: int) -> EvalPayload:
        """The evaluation as the hub would hand it out."""
        examples = min(EXAMPLES, rollouts)
        config = EvaluationConfig(
            environment=f"bench/{self.name}",
            model="bench/stub",
            num_examples=examples,
            rollouts_per_example=rollouts // examples,
            concurrency=concurrency,
        )
        target = EndpointTarget(
            model="bench/stub",
            variants=(TargetVariant(kind="openai", base_url=url, model="stub"),),
            outbound=OutboundPolicy(allow_loopback=True),
        )
        generation, platform = self.generation, interpreters.host_platform()
        python = interpreters.present()[0].short
        return EvalPayload(
            evaluation_id="bench",
            environment=f"bench/{self.name}@1",
            env_id=self.name,
            module=self.name.replace("-", "_"),
            evidence=GenerationEvidence(generation=generation, specifier="", constraint_set=generation.value),
            lock=EnvironmentLock(python=python, platform=platform, verifiers=self.release, wheels=()),
            config=config,
            target=target,
        )


LEGACY = Subject("reverse-text", "0.1.14", Generation.LEGACY, ("datasets<4.7",))
CURRENT = Subject("word-count", "0.4.0", Generation.CURRENT)


@contextmanager
def stub(latency: float) -> Iterator[str]:
    """A stub endpoint as a process; its base URL."""
    command = [sys.executable, "-m", "tests.fakes.policy_endpoint", "--latency", str(latency), "--text", "dcba"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


def first_call(url: str) -> float:
    """When the endpoint's first call since the last time came."""
    request = urllib.request.Request(url.removesuffix("/v1") + "/first", method="POST")
    with urllib.request.urlopen(request) as response:
        return float(json.load(response)["first_at"])


def bare(python: Path, url: str, rollouts: int, concurrency: int) -> float:
    """Rollouts per second of the legacy library by itself."""
    arguments = [str(python), "-c", BARE, url, str(EXAMPLES), str(rollouts), str(concurrency)]
    done = subprocess.run(arguments, check=True, capture_output=True, text=True)
    end = next(line for line in done.stdout.splitlines() if line.startswith("END"))
    return rollouts / (float(end.split()[1]) - first_call(url))


def stock(python: Path, url: str, rollouts: int, concurrency: int) -> float:
    """Rollouts per second of the current library by its own command, until that has ended."""
    with tempfile.TemporaryDirectory() as folder:
        size = ["-n", str(min(EXAMPLES, rollouts)), "-r", str(max(1, rollouts // EXAMPLES)), "-c", str(concurrency)]
        own = ["-m", "stub", "--client.base-url", url, "-o", folder]
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # its programs are started by uv
        command = [str(python.with_name("vf-eval")), CURRENT.name, *own, *size, *STOCK]
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, "PATH": path, "KEY": "x"}, capture_output=True, check=True
        )
        end = time.time()
        traces = [line for path in Path(folder).rglob("traces.jsonl") for line in path.read_text().splitlines()]
        if len(traces) != rollouts:
            raise SystemExit(f"{len(traces)} of {rollouts} rollouts\n{done.stdout.decode()[-3000:]}")
    return rollouts / (end - first_call(url))


async def hosted(subject: Subject, python: Path, url: str, rollouts: int, concurrency: int, data: Path) -> float:
    """Rollouts per second through box, interceptor, segments and hub calls."""

    async def venv(*_: object, **__: object) -> Path:
        return python.parent.parent

    payload = subject.payload(url, rollouts, concurrency).model_dump(mode="json")
    async with FakeHub(lease_seconds=30) as hub:
        run = hub.add(FakeRun("r0", payload=payload))
        settings = WorkerEnvironment(data=data)
        async with HubClient(hub.url, "hubw_good", patience_s=30) as client:
            with mock.patch("workers.evals.run.ensure_environment", venv):
                finish = await execute(client, hub.claim(run), run_evaluation, settings, asyncio.Event())
        end = time.time()
        if finish is None or finish.failure is not None or len(hub.rows) != rollouts:
            raise SystemExit(f"{finish}\n{len(hub.rows)} of {rollouts} rollouts stored\n{run.log}")
        assert {row["outcome"] for row in hub.rows.values()} == {"ok"}
    return rollouts / (end - first_call(url))


@dataclass
class Bench:
    """One subject, one endpoint, one folder."""

    subject: Subject
    url: str
    folder: Path
    repeat: int

    def compare(self, name: str, alone: Callable[[Path, str], float], rollouts: int, concurrency: int) -> float:
        """Medians of both sides, taking turns; prints a line and gives hosted / alone."""
        python = self.folder / self.subject.name / "bin" / "python"
        if not python.exists():
            self.subject.install(python.parent.parent)
        rates: dict[str, list[float]] = {name: [], "hosted": []}
        cpu: list[float] = []
        for _ in range(self.repeat):
            rates[name].append(alone(python, self.url))
            began = time.process_time()
            work = hosted(self.subject, python, self.url, rollouts, concurrency, self.folder / "worker")
            rates["hosted"].append(asyncio.run(work))
            cpu.append(1000 * (time.process_time() - began) / rollouts)
        medians = {side: statistics.median(values) for side, values in rates.items()}
        ratio = medians["hosted"] / medians[name]
        print(
            f"verifiers {self.subject.release}, concurrency {concurrency}, {rollouts} rollouts x {self.repeat}: "
            f"{name} {medians[name]:.1f}/s, hosted {medians['hosted']:.1f}/s, ratio {ratio:.2f}, "
            f"worker {statistics.median(cpu):.2f} ms CPU a rollout",
            flush=True,
        )
        return ratio


def main() -> int:
    """Command line; 1 when a ratio is below its limit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--concurrency", type=int, nargs="*", default=[64, 256])
    parser.add_argument("--rollouts", type=int, default=1024)
    parser.add_argument("--current-rollouts", type=int, default=128)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--latency", type=float, default=0.05)
    options = parser.parse_args()
    missed = False
    with tempfile.TemporaryDirectory(prefix="bench-") as folder, stub(options.latency) as url:
        for concurrency in options.concurrency:

            def alone(python: Path, url: str, concurrency: int = concurrency) -> float:
                return bare(python, url, options.rollouts, concurrency)

            legacy = Bench(LEGACY, url, Path(folder), options.repeat)
            ratio = legacy.compare("bare", alone, options.rollouts, concurrency)
            missed |= ratio < LEAST.get(concurrency, 0.0)

        def stock_alone(python: Path, url: str) -> float:
            return stock(python, url, options.current_rollouts, STOCK_CONCURRENCY)

        current = Bench(CURRENT, url, Path(folder), 1)  # a minute each time, and far from its limit
        missed |= current.compare("stock", stock_alone, options.current_rollouts, 64) < LEAST_CURRENT
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
