"""The demo's hub process and its command lines: `manage.py` and the real `hub` CLI."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[2]
HUB = str(Path(sys.executable).with_name("hub"))
START_S = 300.0  # a busy machine takes minutes; one that ended is noticed at once


class DemoFailed(Exception):
    """Why the demo cannot go on, for the user."""


@dataclass
class Hub:
    """A hub under one data directory and port."""

    data: Path
    port: int
    settings: dict[str, str] = field(default_factory=dict)  # HUB_* variables of its own
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def url(self) -> str:
        """Where the dashboard is."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """What every process of this hub sees."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("HUB_", "WORKER_"))}
        return {**kept, "HUB_DATA": str(self.data), "HUB_BASE_URL": self.url, "PYTHONUNBUFFERED": "1", **self.settings}

    @property
    def log(self) -> Path:
        """What hub and worker print."""
        return self.data / "hub.log"

    def start(self) -> None:
        """Start the hub unless this data directory's hub answers already. Raises DemoFailed."""
        if self._answers():
            if self._is_ours():
                return
            raise DemoFailed(f"port {self.port} is taken by something else: try `make demo PORT={self.port + 1}`")
        self.data.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "serve", "--tiny-model", "--port", str(self.port)],
                cwd=ROOT,
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        deadline = time.monotonic() + START_S
        while not self._answers("/readyz"):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise DemoFailed(f"the hub did not start; see {self.log}:\n{self.log_tail()}")
            time.sleep(0.2)
        (self.data / "demo-port").write_text(str(self.port))

    def stop(self) -> None:
        """Stop what `start` started."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(timeout=60)

    def manage(self, *arguments: str) -> str:
        """One `manage.py` command; its standard output."""
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise DemoFailed(f"manage.py {arguments[0]} failed:\n{done.stderr}")
        return done.stdout.strip()

    def token(self, user: str) -> str:
        """An API token of a user, made once and kept beside the data."""
        path = self.data / f"demo-token-{user}"
        if not path.exists():
            scopes = "read,write,inference" + (",admin" if user == "admin" else "")
            token = self.manage("create_token", user, "--name", "demo", "--scopes", scopes)
            path.touch(mode=0o600)
            path.write_text(token)
        return path.read_text()

    def log_tail(self) -> str:
        """The log's last lines."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:]) if self.log.exists() else ""

    def _answers(self, path: str = "/healthz") -> bool:
        with suppress(httpx.HTTPError):
            return httpx.get(self.url + path, timeout=3).status_code == 200
        return False

    def _is_ours(self) -> bool:
        mark = self.data / "demo-port"
        return mark.exists() and mark.read_text() == str(self.port)


@dataclass(frozen=True)
class Cli:
    """The `hub` command as one user."""

    hub: Hub
    token: str

    def popen(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command; its JSON will be on standard output."""
        environment = {**self.hub.environment, "HUB_URL": self.hub.url, "HUB_TOKEN": self.token}
        return subprocess.Popen(
            [HUB, *arguments, "--json"],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, fails: bool = False) -> Any:
        """One command's JSON. Raises DemoFailed on exit status other than 0, unless `fails` allows 1."""
        process = self.popen(*arguments)
        out, err = process.communicate()
        if process.returncode not in ((0, 1) if fails else (0,)):
            raise DemoFailed(f"hub {' '.join(arguments)} failed:\n{err or out}")
        return json.loads(out) if out.strip() else None
