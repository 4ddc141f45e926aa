"""What `hub eval run --local` makes of its command line, before anything runs."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer
from envhub.cli.environments.local_packages import find_local
from envhub.cli.evaluations.files import Endpoint
from envhub.cli.evaluations.local import run_local
from envhub.cli.evaluations.local_evaluations import LocalEvaluation, LocalOptions, local_evaluations, policy_of
from envhub.cli.terminal.session import Session
from envhub.client import HubClient
from envhub.client.connection import Retry
from envhub.errors import EnvhubError, PackageError, UsageError
from envhub.protocol.base import JsonObject
from envhub.protocol.evals.rollouts import Outcome, RolloutRecord
from uv import find_uv_bin

from tests.factories.packages import LEGACY_SOURCE, make_wheel, write_package

FLAGS: JsonObject = {"model": "m"}
FILE = """
api_base_url = "https://models.example/v1/"
api_key_var = "THEIR_KEY"
save_results = true
[[eval]]
env_id = "tiny-env"
"""


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    """No login, one key, ./environments/tiny-env and eval.toml."""
    monkeypatch.chdir(tmp_path)
    write_package(Path("environments"))
    Path("eval.toml").write_text(FILE)
    return Session(environ={"THEIR_KEY": "sk-1", "MINE": "sk-2"}, config_file=tmp_path / "none.toml")


def one(session: Session, target: str, endpoint: Endpoint = Endpoint(), **fields: object) -> LocalEvaluation:  # noqa: B008
    options = LocalOptions(sys.executable, endpoint)
    (found,) = local_evaluations(session, target, {**FLAGS, **fields}, options)
    return found


def test_a_files_endpoint_is_called_and_what_has_no_effect_is_told(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = policy_of(session, one(session, "eval.toml"))
    assert (policy.base_url, policy.api_key) == ("https://models.example/v1", "sk-1")
    assert "without effect with --local: save_results\n" in capsys.readouterr().err


def test_a_flags_address_does_not_get_the_files_key(session: Session) -> None:
    policy = policy_of(session, one(session, "eval.toml", Endpoint("http://127.0.0.1:1/v1")))
    assert (policy.base_url, policy.api_key) == ("http://127.0.0.1:1/v1", "none")
    other = policy_of(session, one(session, "eval.toml", Endpoint(None, "MINE")))
    assert (other.base_url, other.api_key) == ("https://models.example/v1", "sk-2")


def test_a_key_needs_an_address_and_a_value(session: Session) -> None:
    with pytest.raises(UsageError, match="has no address to go with it"):
        policy_of(session, one(session, "tiny-env", Endpoint(None, "MINE")))
    with pytest.raises(UsageError, match="NOT_SET is not set"):
        policy_of(session, one(session, "tiny-env", Endpoint("http://127.0.0.1:1/v1", "NOT_SET")))


@pytest.mark.parametrize(
    ("field", "value", "flag"),
    [
        ("judges", {"gpt": "hub/tiny"}, "--judge"),
        ("secrets", ["KEY"], "--secret"),
        ("allow_hosts", ["a.example:443"], "--allow-host"),
    ],
)
def test_what_only_the_hub_can_do_is_refused_by_name(session: Session, field: str, value: object, flag: str) -> None:
    for target in ("tiny-env", "eval.toml"):
        with pytest.raises(UsageError, match=flag):
            one(session, target, **{field: value})


def test_a_directory_is_found_by_name_by_path_and_under_its_owners_name(session: Session) -> None:
    for target, reference in [
        ("tiny-env", "tiny-env"),
        ("tiny_env", "tiny-env"),
        ("environments/tiny_env", "tiny-env"),
        ("bob/tiny-env@1.0", "bob/tiny-env"),
    ]:
        found = one(session, target).package
        assert found.directory is not None
        assert (found.name, found.reference) == ("tiny-env", reference)


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter into which a module called installed_env is installed."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "installed_env.py").write_text("raise SystemExit('looking must not import it')\n")
    return str(folder / "bin" / "python")


def test_what_is_installed_is_found_by_its_name(session: Session, python: str) -> None:
    for target, reference in [("installed-env", "installed-env"), ("bob/installed-env", "bob/installed-env")]:
        found = find_local(target, python)
        assert (found.name, found.reference, found.directory) == ("installed-env", reference, None)


def test_a_packages_own_layout_and_entry_module_are_those_that_the_hub_would_use(session: Session) -> None:
    directory = Path("environments/my-env")
    (directory / "src/other").mkdir(parents=True)
    head = '[project]\nname = "my-env"\nversion = "1"\n'
    (directory / "pyproject.toml").write_text(head)
    package = find_local("my-env", sys.executable)
    assert (package.module, package.paths) == ("my_env", [directory])
    (directory / "pyproject.toml").write_text(f'{head}[tool.envhub]\nmodule = "other"\n')
    package = find_local("my-env", sys.executable)
    assert (package.module, package.paths) == ("other", [directory / "src"])


@pytest.mark.parametrize("root", ["", "src/"])
def test_a_module_with_another_name_is_found_as_the_hub_finds_it(session: Session, root: str) -> None:
    files = {f"{root}game/__init__.py": LEGACY_SOURCE, f"{root}rewards.py": "", "tests/test_game.py": LEGACY_SOURCE}
    directory = write_package(Path("environments"), "my-env", files=files)
    (directory / "my_env.py").unlink()
    package = find_local("my-env", sys.executable)
    assert (package.module, package.paths) == ("game", [directory / root])
    (directory / root / "maze.py").write_text(LEGACY_SOURCE)
    with pytest.raises(PackageError, match="no module my_env: environments are in game, maze") as caught:
        find_local("my-env", sys.executable)
    assert "[tool.envhub] module" in caught.value.hint


def test_a_folder_that_holds_packages_or_a_script_is_no_module(session: Session) -> None:
    files = {"lib/my_env/__init__.py": LEGACY_SOURCE, "run_it.py": "print('hello')\n"}
    directory = write_package(Path("environments"), "my-env", files=files)
    (directory / "my_env.py").unlink()
    assert find_local("my-env", sys.executable).module == "my_env"


def test_an_installed_module_with_another_name_is_found(session: Session, python: str, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "odd-name", files={"puzzle.py": LEGACY_SOURCE, "texts.py": ""}, requires=())
    install = [find_uv_bin(), "pip", "install", "--offline", "--no-deps", "--python", python, str(wheel)]
    subprocess.run(install, check=True, capture_output=True)
    assert find_local("odd-name", python).module == "puzzle"


def test_what_is_neither_here_nor_installed_says_how_to_get_it(session: Session, python: str) -> None:
    Path("only_a_folder").mkdir()
    with pytest.raises(UsageError) as raised:
        find_local("bob/only-a-folder", python)
    assert "`hub pull bob/only-a-folder`" in raised.value.hint
    with pytest.raises(UsageError, match="the interpreter"):
        find_local("tiny-env", "/nowhere/python")


def test_results_are_shown_and_the_rest_is_evaluated_without_a_hub(
    session: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def away(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    async def evaluate(*given: Any) -> None:
        given[3].touch()
        given[4].append(RolloutRecord(example=0, rollout=0, example_hash="0" * 64, outcome=Outcome.OK, reward=1.0))

    hub = HubClient("http://hub.test", "hub_x", httpx.MockTransport(away), Retry(attempts=1))
    monkeypatch.setattr(session, "hub", hub, raising=False)
    monkeypatch.setattr("envhub.cli.evaluations.local._evaluate", evaluate)
    run_local(session, [one(session, "tiny-env", Endpoint("http://127.0.0.1:1/v1"))] * 2)
    said = capsys.readouterr()
    assert said.err.count("not uploaded: cannot reach http://hub.test") == 2
    assert said.out.count("1/1 scored") == said.out.count("outputs/evals/tiny-env--m/") == 2


@pytest.mark.parametrize(("from_file", "kind"), [(True, list), (False, dict)])
def test_as_json_the_results_of_a_file_are_always_a_list(
    session: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], from_file: bool, kind: type
) -> None:
    async def evaluate(*given: Any) -> None:
        given[3].touch()
        given[4].append(RolloutRecord(example=0, rollout=0, example_hash="0" * 64, outcome=Outcome.OK, reward=1.0))

    monkeypatch.setattr("envhub.cli.evaluations.local._evaluate", evaluate)
    found = one(session, "tiny-env", Endpoint("http://127.0.0.1:1/v1"))
    session.json = True
    run_local(session, [replace(found, options=replace(found.options, skip_upload=True))], from_file=from_file)
    assert type(json.loads(capsys.readouterr().out)) is kind


@pytest.mark.parametrize("problem", [EnvhubError("it does not load"), KeyboardInterrupt()])
def test_what_fails_or_is_interrupted_hides_no_finished_results(
    session: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], problem: BaseException
) -> None:
    async def evaluate(*given: Any) -> None:
        given[3].touch()
        if given[1].config.name == "bad":
            raise problem
        given[4].append(RolloutRecord(example=0, rollout=0, example_hash="0" * 64, outcome=Outcome.OK, reward=1.0))

    monkeypatch.setattr("envhub.cli.evaluations.local._evaluate", evaluate)
    endpoint = Endpoint("http://127.0.0.1:1/v1")
    wanted = [one(session, "tiny-env", endpoint, name=name) for name in ("good", "bad", "good")]
    wanted = [replace(each, options=replace(each.options, skip_upload=True)) for each in wanted]
    goes_on = isinstance(problem, EnvhubError)
    with pytest.raises(typer.Exit if goes_on else KeyboardInterrupt):
        run_local(session, wanted)
    said = capsys.readouterr()
    assert said.out.count("outputs/evals/tiny-env--m/") == (2 if goes_on else 1)
    assert ("it does not load" in said.err) == goes_on
