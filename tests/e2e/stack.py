"""A real hub for tests: `manage.py serve` with web server, sweeper and worker, the `hub` CLI, stub model endpoints.

The first run downloads what caches.py keeps, and is slow.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from secrets import randbelow
from typing import Any

import httpx
from envhub.client import HubClient
from envhub.client.connection import Retry
from envhub.errors import ConnectionFailed, ServerError
from envhub.protocol.evals.evaluations import EvaluationConfig, EvaluationView, RolloutRow
from envhub.protocol.models.catalog import EndpointVariant, ModelRequest
from envhub.protocol.registry.packages import VersionView
from envhub.protocol.runs import RunView

from infra.demo.processes import Role, find, kill, processes_of
from tests.e2e.caches import copy_empty_database, worker_cache
from tests.e2e.endpoints import EndpointThread
from tests.fakes.policy_endpoint import Body, PolicyEndpoint

ROOT = Path(__file__).parents[2]
HUB = str(Path(sys.executable).with_name("hub"))
USER = "tester"
START_S, STOP_S, PATIENCE_S = 180.0, 60.0, 600.0
SETTINGS = {
    "HUB_LEASE_SECONDS": "6",
    "HUB_RETRY_SECONDS": "0.5",
    "HUB_MAX_ATTEMPTS": "4",
    "HUB_WORKER_BEAT_SECONDS": "1",
    "HUB_HUGGINGFACE_URL": "none",
    "HUB_EVAL_SPREAD_S": "2",  # what lasts longer than twice this is done by both slots
    "HUB_EVAL_SHARD_ROLLOUTS": "2",
    "WORKER_SLOTS": '{"build": 2, "eval": 2}',
    "WORKER_STOP_GRACE_S": "5",
}


@dataclass(frozen=True)
class Result:
    """How a CLI command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What `--json` printed."""
        return json.loads(self.out)


@dataclass
class Stack:
    """One hub. Made by `running_stack`."""

    data: Path
    port: int
    settings: Mapping[str, str]
    endpoints: EndpointThread
    serve: subprocess.Popen[bytes] | None = None
    token: str = ""
    user: str = USER
    options: tuple[str, ...] = ()  # of `serve`
    root: Path = ROOT  # the source tree that its processes and its command line come from
    _names: Iterator[int] = field(default_factory=lambda: count(1))

    @property
    def url(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """The variables of its processes."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HUB_", "WORKER_", "TEST_"))}
        own = {"HUB_DATA": str(self.data), "HUB_BASE_URL": self.url, "PYTHONUNBUFFERED": "1"}
        code = {} if self.root == ROOT else {"PYTHONPATH": f"{self.root}:{self.root / 'sdk'}"}
        return {**kept, **own, **code, **SETTINGS, **self.settings}

    @property
    def log(self) -> Path:
        """What hub and worker print."""
        return self.data / "hub.log"

    def start(self) -> None:
        """Start it and wait until it answers. It ends with this process, however that ends."""
        self.data.mkdir(parents=True, exist_ok=True)
        if self.root == ROOT and "HUB_DATABASE_URL" not in self.environment:
            copy_empty_database(self.data)
        serve = [sys.executable, "manage.py", "serve", "--port", str(self.port), *self.options]
        command = ["setpriv", "--pdeathsig", "TERM", *serve]
        with self.log.open("ab") as log:
            self.serve = subprocess.Popen(
                command, cwd=self.root, env=self.environment, stdout=log, stderr=log, start_new_session=True
            )
        wait_until(self._is_ready, START_S, lambda: f"the hub did not start:\n{self.log_tail()}")
        self.token = self.token or self.make_token(self.user, "read,write,inference")

    @contextmanager
    def restarted(self, **settings: str) -> Iterator[None]:
        """Inside: the same hub, started anew with other variables. Afterwards: as before."""
        before = self.settings
        try:
            self._restart({**before, **settings})
            yield
        finally:
            self._restart(before)

    def stop(self) -> list[str]:
        """Stop it. Gives the command lines of processes that outlived it; they are killed."""
        if self.serve is not None:
            with suppress(ProcessLookupError):
                os.kill(self.serve.pid, signal.SIGTERM)
            try:
                self.serve.wait(STOP_S)
            except subprocess.TimeoutExpired:
                self.serve.kill()
                self.serve.wait()
            self.serve = None
        left = [process for process in processes_of(self.data) if process.command]
        kill(process.pid for process in left)
        return [" ".join(process.command) for process in left]

    def as_user(self, user: str) -> Stack:
        """The same hub for somebody else. Do not start or stop it through this."""
        return replace(self, user=user, token=self.make_token(user, "read,write,inference"))

    def make_token(self, user: str, scopes: str) -> str:
        """A new API token; makes the user if need be. "admin" is the administrator."""
        return self.manage("create_token", user, "--scopes", scopes)

    def manage(self, *arguments: str) -> str:
        """One `manage.py` command's standard output."""
        command = [sys.executable, "manage.py", *arguments]
        done = subprocess.run(command, cwd=self.root, env=self.environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def client(self, token: str | None = None) -> HubClient:
        """The SDK's client; patient, because tests kill the hub."""
        return HubClient(self.url, token or self.token, retry=Retry(attempts=8))

    def start_cli(self, *arguments: str, cwd: Path = ROOT, **variables: str) -> subprocess.Popen[str]:
        """The real `hub` command, running."""
        own = {"HUB_URL": self.url, "HUB_TOKEN": self.token, **variables}
        environment = {**self.environment, **own}
        pipe = subprocess.PIPE
        return subprocess.Popen([HUB, *arguments], cwd=cwd, env=environment, stdout=pipe, stderr=pipe, text=True)

    def cli(
        self,
        *arguments: str,
        cwd: Path = ROOT,
        code: int | None = 0,
        patience_s: float = PATIENCE_S,
        **variables: str,
    ) -> Result:
        """The real `hub` command; `code` is the expected exit status, None for any."""
        process = self.start_cli(*arguments, cwd=cwd, **variables)
        out, err = process.communicate(timeout=patience_s)
        assert code is None or process.returncode == code, (
            f"hub {' '.join(arguments)}: {process.returncode}\n{out}{err}"
        )
        return Result(process.returncode, out, err)

    def push(self, directory: Path) -> VersionView:
        """Push a package by the CLI, without waiting for its build."""
        return VersionView.model_validate(self.cli("push", str(directory), "--no-wait", "--json").json["version"])

    def wait_ready(self, version: VersionView) -> VersionView:
        """The version once its build has ended, `ready` or `invalid`."""
        with self.client() as hub:
            assert version.build_run_id is not None
            self.wait_run(version.build_run_id)
            return hub.environments.version(f"{version.owner}/{version.name}", version.version)

    def wait_run(self, run_id: str, seconds: float = PATIENCE_S) -> RunView:
        """The run in its final state."""
        with self.client() as hub:
            wait_until(
                lambda: self._answer(lambda: hub.runs.get(run_id).state.is_final),
                seconds,
                lambda: f"run {run_id} did not end: {hub.runs.get(run_id)}\n{self.log_tail()}",
            )
            return hub.runs.get(run_id)

    def register(self, endpoint: PolicyEndpoint, **variant: Any) -> str:
        """Serve a stub endpoint and register it as a model; gives owner/name."""
        name = f"stub-{next(self._names)}"
        self.endpoints.open(endpoint)
        fields = {"base_url": endpoint.base_url, "model": endpoint.model, **variant}
        with self.client() as hub:
            hub.models.put(self.user, ModelRequest(name=name, variants=(EndpointVariant(**fields),), test=False))
        return f"{self.user}/{name}"

    def evaluate(self, config: EvaluationConfig) -> EvaluationView:
        """Queue an evaluation."""
        with self.client() as hub:
            return hub.evaluations.create(config)

    def finished(self, evaluation_id: str, seconds: float = PATIENCE_S) -> EvaluationView:
        """The evaluation once its run has ended."""
        with self.client() as hub:
            run_id = hub.evaluations.get(evaluation_id).run_id
            assert run_id is not None
            self.wait_run(run_id, seconds)
            return hub.evaluations.get(evaluation_id)

    def rollouts(self, evaluation_id: str) -> list[RolloutRow]:
        """All index rows."""
        with self.client() as hub:
            return list(hub.evaluations.rollouts(evaluation_id))

    def run_log(self, run_id: str) -> str:
        """What a run logged."""
        with self.client() as hub:
            return "".join(hub.runs.follow_log(run_id, follow=False))

    def pids(self, role: Role) -> list[int]:
        """Its processes of a role."""
        return find(self.data, role)

    def log_tail(self, lines: int = 40) -> str:
        """The log's last lines."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _restart(self, settings: Mapping[str, str]) -> None:
        left = self.stop()
        assert not left, f"processes outlived their hub: {left}"
        self.settings = settings
        self.start()

    def _is_ready(self) -> bool:
        assert self.serve is not None
        assert self.serve.poll() is None, self.log_tail()
        with suppress(httpx.HTTPError):
            return httpx.get(f"{self.url}/healthz", timeout=5).status_code == 200
        return False

    def _answer(self, ask: Callable[[], bool]) -> bool:
        with suppress(ConnectionFailed, ServerError):  # the hub is being restarted
            return ask()
        return False


def wait_until(check: Callable[[], bool], seconds: float, problem: Callable[[], str], pause: float = 0.25) -> None:
    """Poll. Raises AssertionError with `problem` when the time is over."""
    deadline = time.monotonic() + seconds
    while not check():
        assert time.monotonic() < deadline, problem()
        time.sleep(pause)


@contextmanager
def running_stack(data: Path, settings: Mapping[str, str]) -> Iterator[Stack]:
    """A started hub, its worker's caches and its endpoints; nothing of it is left afterwards."""
    with worker_cache() as cache:
        endpoints = EndpointThread()
        stack = Stack(data, free_port(), {"WORKER_DATA": str(cache), **settings}, endpoints)
        try:
            stack.start()
            yield stack
        finally:
            left = stack.stop()
            endpoints.close()
        assert not left, f"processes outlived their hub: {left}"


def free_port() -> int:
    """A port that nobody listens on; not of those that outgoing connections take, before a slow process comes to it."""
    while True:
        port = 10_000 + randbelow(20_000)  # by chance that pytest does not seed: several runs may share a machine
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def answer_text(text: str) -> Callable[[Body], str]:
    """A model that always says this."""
    return lambda body: text
