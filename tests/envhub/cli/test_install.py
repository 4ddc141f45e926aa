from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.envhub.cli.conftest import Cli
from tests.factories.registry import push_version

SOURCE = 'def load_environment():\n    return "it works"\n'
PLAIN = {"source": SOURCE, "requires": []}


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A bare virtual environment."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return str(folder / "bin" / "python")


def test_an_environment_is_installed_and_can_be_imported(cli: Cli, python: str) -> None:
    push_version(cli.user, **PLAIN)
    assert cli.json("install", "alice/tiny-env", "--python", python)["installed"] == "alice/tiny-env@0.1.0"
    code = "import tiny_env; print(tiny_env.load_environment())"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "it works"


def test_a_wheel_for_another_platform_is_not_installed(cli: Cli, python: str) -> None:
    push_version(cli.user, **PLAIN, tag="py3-none-win_amd64")
    assert "win_amd64" in cli("install", "alice/tiny-env", "--python", python, code=1).stderr


def test_a_package_under_environments_is_installed_by_its_name(cli: Cli, python: str) -> None:
    cli("init", "my-env")
    path = Path("environments/my-env/pyproject.toml")
    text = path.read_text()
    start, end = text.index("dependencies = ["), text.index("[tool.hatch.build]")
    path.write_text(text[:start] + "dependencies = []\n\n" + text[end:])
    for name in ("my-env", "./environments/my-env"):
        assert cli.json("install", name, "--python", python)["installed"] == "my-env"


def test_what_is_no_package_here_is_ones_own_environment(cli: Cli, python: str) -> None:
    push_version(cli.user, **PLAIN)
    for name in ("tiny-env", "tiny-env@0.1.0"):
        assert cli.json("install", name, "--python", python)["installed"] == "alice/tiny-env@0.1.0"


def test_without_an_active_virtual_environment_nothing_is_installed(cli: Cli) -> None:
    push_version(cli.user, **PLAIN)
    assert "--python" in cli("install", "alice/tiny-env", code=2).stderr


def test_the_active_virtual_environment_is_installed_into(cli: Cli, python: str) -> None:
    push_version(cli.user, **PLAIN)
    cli.environ["VIRTUAL_ENV"] = str(Path(python).parent.parent)
    assert cli.json("install", "alice/tiny-env")["python"] == python


def test_what_cannot_be_installed_says_why(cli: Cli, python: str) -> None:
    push_version(cli.user, source=SOURCE, requires=["tiny-env-needs-this>=99"])
    result = cli("install", "alice/tiny-env", "--python", python, code=1)
    assert "tiny-env-needs-this" in result.stderr


def test_the_token_is_in_no_output_and_no_command_line(cli: Cli, python: str, monkeypatch: pytest.MonkeyPatch) -> None:
    push_version(cli.user, **PLAIN)
    seen: list[tuple[list[str], dict[str, str]]] = []
    real = subprocess.run

    def record(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
        seen.append((list(command), dict(options["env"])))  # type: ignore[call-overload]
        return real(command, **options)  # type: ignore[call-overload,no-any-return]

    monkeypatch.setattr("envhub.cli.install.subprocess.run", record)
    result = cli("install", "alice/tiny-env", "--python", python)
    token = cli.environ["HUB_TOKEN"]
    ((command, environ),) = seen
    assert token not in " ".join(command) + result.output
    assert token in environ["UV_INDEX"]
