"""The real pip and the real uv install from the index of a live hub."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from pytest_django.live_server_helper import LiveServer

from hub.accounts.models import User
from hub.registry.services import yank_version
from tests.factories.accounts import make_token, make_user
from tests.factories.registry import push_version

pytestmark = pytest.mark.django_db(transaction=True)
Install = Callable[..., "subprocess.CompletedProcess[str]"]
PIP = [sys.executable, "-m", "pip", "--isolated", "--no-input"]
COMMANDS = {
    "pip": [sys.executable, "-m", "pip", "--isolated", "install", "--no-input", "--no-cache-dir", "--no-compile"],
    "uv": [
        str(Path(sys.executable).with_name("uv")),
        "pip",
        "install",
        "--no-config",
        "--no-cache",
        "--link-mode=copy",
    ],
}


@pytest.fixture(params=sorted(COMMANDS))
def install(request: pytest.FixtureRequest, live_server: LiveServer, tmp_path: Path) -> Install:
    """`install("tiny-env", secret=...)` into tmp_path/site, from alice's index alone."""

    def run(requirement: str, *, secret: str = "") -> subprocess.CompletedProcess[str]:
        credentials = f"anyone:{secret}@" if secret else ""
        url = live_server.url.replace("://", f"://{credentials}") + "/index/alice/simple/"
        argv = [*COMMANDS[request.param], "--index-url", url, "--target", str(tmp_path / "site"), requirement]
        return subprocess.run(argv, env=clean_environment(tmp_path), capture_output=True, text=True, timeout=120)

    return run


def clean_environment(home: Path) -> dict[str, str]:
    """Without this machine's own indexes and proxies."""
    dropped = ("PIP_", "UV_", "HTTP", "http", "ALL_PROXY", "all_proxy")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(dropped)}
    return kept | {"HOME": str(home), "NO_PROXY": "*", "PIP_CONFIG_FILE": os.devnull}


def installed(tmp_path: Path) -> list[str]:
    return sorted(path.name.removesuffix(".dist-info") for path in (tmp_path / "site").glob("*.dist-info"))


@pytest.fixture
def alice() -> User:
    return make_user("alice")


def test_the_newest_version_that_fits_is_installed(alice: User, install: Install, tmp_path: Path) -> None:
    push_version(alice, "other-env", "1.0", requires=["tiny-env<9"])
    push_version(alice, version="0.2.0", requires=[])
    push_version(alice, version="0.10.0", requires=[])
    yank_version(version=push_version(alice, version="0.11.0", requires=[]), yanked=True, reason="broken")
    push_version(alice, version="0.12.0", requires=[], requires_python=">=3.99")
    push_version(alice, version="9.0", requires=[])
    done = install("other-env")
    assert done.returncode == 0, done.stderr
    assert installed(tmp_path) == ["other_env-1.0", "tiny_env-0.10.0"]


def test_a_yanked_version_is_installed_by_exact_pin(alice: User, install: Install, tmp_path: Path) -> None:
    yank_version(version=push_version(alice, requires=[]), yanked=True, reason="broken reward")
    push_version(alice, version="0.2.0", requires=[])
    done = install("tiny-env==0.1.0")
    assert done.returncode == 0, done.stderr
    assert installed(tmp_path) == ["tiny_env-0.1.0"]
    assert "broken reward" in done.stderr + done.stdout


def test_a_private_package_needs_a_members_token(alice: User, install: Install, tmp_path: Path) -> None:
    push_version(alice, requires=[], private=True)
    push_version(alice, "open-env", requires=[])
    assert install("tiny-env").returncode != 0
    assert install("tiny-env", secret=make_token(make_user())).returncode != 0
    assert installed(tmp_path) == []
    done = install("tiny-env", secret=make_token(alice))
    assert done.returncode == 0, done.stderr
    assert installed(tmp_path) == ["tiny_env-0.1.0"]


def test_credentials_may_come_from_netrc(alice: User, install: Install, tmp_path: Path) -> None:
    push_version(alice, requires=[], private=True)
    netrc = tmp_path / ".netrc"
    netrc.write_text(f"machine localhost login anyone password {make_token(alice)}\n")
    netrc.chmod(0o600)
    done = install("Tiny_Env")
    assert done.returncode == 0, done.stderr
    assert installed(tmp_path) == ["tiny_env-0.1.0"]
