"""The CLI against a real hub in this process: httpx's WSGI transport into Django."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from envhub.cli.main import app
from envhub.cli.terminal.session import Session
from envhub.client import HubClient
from envhub.client.connection import Retry
from typer.testing import CliRunner, Result

from hub.accounts.models import User
from tests.factories.accounts import make_token, make_user

URL = "http://127.0.0.1:8000"


@dataclass
class Cli:
    """Runs `hub ...` as one user."""

    user: User
    config_file: Path
    environ: dict[str, str] = field(default_factory=dict)

    def __call__(
        self, *arguments: str, stdin: str | bytes | None = None, code: int = 0, charset: str = "utf-8"
    ) -> Result:
        """The result, after checking the exit code."""
        transport = httpx.WSGITransport(get_wsgi_application())
        session = Session(transport=transport, environ=self.environ, config_file=self.config_file)
        runner = CliRunner(charset=charset)
        result = runner.invoke(app, list(arguments), obj=session, input=stdin, catch_exceptions=False)
        assert result.exit_code == code, result.output
        return result

    def json(self, *arguments: str, stdin: str | None = None, code: int = 0) -> Any:
        """What `--json` prints."""
        return json.loads(self(*arguments, "--json", stdin=stdin, code=code).stdout)


MakeCli = Callable[[User], Cli]


@pytest.fixture(autouse=True)
def in_process() -> Iterator[None]:
    """Requests keep the connection that the test's transaction lives on, as with Django's own test client."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.fixture
def make_cli(db: None, tmp_path: Path) -> MakeCli:
    """`make_cli(user)`: a logged-in command line."""

    def make(user: User) -> Cli:
        environ = {"HUB_URL": URL, "HUB_TOKEN": make_token(user)}
        return Cli(user, tmp_path / f"{user.username}.toml", environ)

    return make


@pytest.fixture
def cli(make_cli: MakeCli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Alice's command line, in an empty directory."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return make_cli(make_user("alice"))


@pytest.fixture
def client(db: None) -> HubClient:
    """Alice's client, without the command line."""
    transport = httpx.WSGITransport(get_wsgi_application())
    return HubClient(URL, make_token(make_user("alice")), transport, Retry(sleep=lambda _: None))
