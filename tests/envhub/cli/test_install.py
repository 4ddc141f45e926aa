from __future__ import annotations

import hashlib
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from envhub.cli.environments.locked import versions
from envhub.protocol.registry.builds import EnvironmentLock, LockedWheel

from hub.registry.models import Version
from hub.registry.wire import lock_for_reader
from hub.storage.services import store_bytes
from tests.envhub.cli.conftest import Cli
from tests.factories.accounts import make_user
from tests.factories.packages import make_wheel
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


def test_a_folder_that_looks_like_a_name_is_told_how_to_be_written(cli: Cli, python: str) -> None:
    cli("init", "my-env")
    failed = cli("install", "environments/my-env", "--python", python, code=2).stderr
    assert "no environment environments/my-env" in failed
    assert "./environments/my-env" in failed


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

    monkeypatch.setattr("envhub.cli.environments.install.subprocess.run", record)
    result = cli("install", "alice/tiny-env", "--python", python)
    token = cli.environ["HUB_TOKEN"]
    ((command, environ),) = seen
    assert token not in " ".join(command) + result.output
    assert token in environ["UV_INDEX"]


PYTHON, PLATFORM = f"3.{sys.version_info[1]}", sysconfig.get_platform().replace("-", "_").replace(".", "_")
LOOSE = 'from importlib.metadata import version\n\ndef load_environment():\n    return version("locked-lib")\n'


def locked_version(cli: Cli, folder: Path, *, python: str = PYTHON) -> Version:
    """A version that needs a project of no index, whose wheel the hub has built and kept."""
    made = push_version(cli.user, source=LOOSE, requires=["locked-lib"])
    folder.mkdir()
    library = make_wheel(folder, "locked-lib", "1.5", requires=["never-there"])
    content = library.read_bytes()
    store_bytes(content)
    own = LockedWheel(name="tiny-env", version="0.1.0", filename=made.wheel_filename, sha256=made.wheel_id,
                      size=made.wheel.size, owned=True)  # fmt: skip
    kept = LockedWheel(name="locked-lib", version="1.5", filename=library.name, built_from_source=True,
                       sha256=hashlib.sha256(content).hexdigest(), size=len(content))  # fmt: skip
    lock = EnvironmentLock(python=python, platform=PLATFORM, verifiers="", wheels=(own, kept))
    Version.objects.filter(pk=made.pk).update(lock=lock.model_dump(mode="json"), lock_sha256="0" * 64)
    return made


def test_what_the_build_locked_is_installed_and_nothing_is_resolved(cli: Cli, python: str, tmp_path: Path) -> None:
    locked_version(cli, tmp_path / "wheels")
    cli("install", "alice/tiny-env", "--python", python)
    code = "import tiny_env; print(tiny_env.load_environment())"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1.5"


@pytest.mark.matrix
def test_dependencies_are_resolved_anew_on_demand(cli: Cli, python: str, tmp_path: Path) -> None:
    locked_version(cli, tmp_path / "wheels")
    assert "locked-lib" in cli("install", "alice/tiny-env", "--python", python, "--resolve", code=1).stderr


@pytest.mark.matrix
def test_another_python_gets_the_versions_of_the_lock(cli: Cli, python: str, tmp_path: Path) -> None:
    made = locked_version(cli, tmp_path / "wheels", python="3.2")
    said = cli("install", "alice/tiny-env", "--python", python, code=1).stderr
    assert "was locked for Python 3.2" in said
    lock = EnvironmentLock.model_validate(Version.objects.get(pk=made.pk).lock)
    assert versions(lock) == ("locked-lib==1.5",)


def test_a_locked_wheel_of_a_private_package_is_for_those_who_may_see_it(cli: Cli, tmp_path: Path) -> None:
    made = locked_version(cli, tmp_path / "wheels")
    secret = push_version(cli.user, "secret-lib", private=True)
    owned = LockedWheel(name="secret-lib", version="0.1.0", filename=secret.wheel_filename, sha256=secret.wheel_id,
                        size=secret.wheel.size, owned=True)  # fmt: skip
    lock = EnvironmentLock.model_validate(Version.objects.get(pk=made.pk).lock)
    lock = lock.model_copy(update={"wheels": (*lock.wheels, owned)})
    Version.objects.filter(pk=made.pk).update(lock=lock.model_dump(mode="json"))
    shown = [lock_for_reader(Version.objects.get(pk=made.pk), user) for user in (cli.user, make_user("bob"))]
    assert [[bool(wheel.url) for wheel in one.wheels] for one in shown] == [[True, True, True], [True, True, False]]
