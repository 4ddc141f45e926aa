"""`hub eval run --local` with a real verifiers release and a stub endpoint."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from envhub.cli.evaluations.local import load_here, plan
from envhub.cli.evaluations.local_runner import LocalRunner
from envhub.errors import EnvhubError
from envhub.protocol.evals.evaluations import EvaluationConfig
from envhub.protocol.registry.packages import Generation
from envhub.protocol.runner import Described, Hello, Load, Policy, SplitInfo

from hub.evals.models import RolloutIndex
from tests.envhub.cli.conftest import Cli, MakeCli
from tests.envhub.runner.venvs import python_of
from tests.factories.accounts import make_user
from tests.factories.packages import write_package

POLICY = Policy(base_url="http://127.0.0.1:1/v1", model="m")
CONFIG = EvaluationConfig(environment="tiny-env", model="m", num_examples=3, rollouts_per_example=4)


def _hello(*, requires_group: bool) -> Hello:
    return Hello(generation=Generation.LEGACY, verifiers="0", python="3", env_class="E", requires_group=requires_group)


def _described(size: int | None) -> Described:
    return Described(env_class="E", splits={"eval": SplitInfo(size=size)})


def test_rollouts_are_planned_one_by_one_and_no_more_than_there_are_examples() -> None:
    groups = plan(CONFIG, POLICY, _hello(requires_group=False), _described(2))
    assert [(group.example, group.first_index, group.n) for group in groups][:5] == [
        *((0, index, 1) for index in range(4)),
        (1, 0, 1),
    ]
    assert len(groups) == 8
    assert len({group.id for group in groups}) == 8


def test_group_rewards_get_whole_groups() -> None:
    groups = plan(CONFIG, POLICY, _hello(requires_group=True), _described(None))
    assert [(group.example, group.n) for group in groups] == [(0, 4), (1, 4), (2, 4)]


def test_a_data_set_without_examples_ends_before_it_replaces_earlier_results() -> None:
    with pytest.raises(EnvhubError, match="has no examples") as caught:
        plan(CONFIG, POLICY, _hello(requires_group=False), _described(0))
    assert "--env-args" in caught.value.hint


def test_local_flags_need_local(cli: Cli) -> None:
    assert "--local" in cli("eval", "run", "tiny-env", "-m", "m", "--skip-upload", code=2).stderr


def test_without_a_login_or_an_endpoint_it_says_what_to_do(cli: Cli) -> None:
    write_package(Path("environments"))
    cli.environ.pop("HUB_TOKEN")
    assert "--base-url" in cli("eval", "run", "tiny-env", "--local", "-m", "m", code=2).stderr


def test_an_interpreter_that_dies_is_an_error_not_a_hang(cli: Cli) -> None:
    write_package(Path("environments"))
    arguments = ("--local", "-m", "m", "-b", "http://127.0.0.1:1/v1", "--python", "/bin/false", "--skip-upload")
    assert "died" in cli("eval", "run", "tiny-env", *arguments, code=1).stderr


def test_an_interpreter_without_verifiers_is_told_how_to_install_and_leaves_no_results(cli: Cli) -> None:
    cli("init", "my-env")
    arguments = ("--local", "-m", "m", "-b", "http://127.0.0.1:1/v1", "--python", sys.executable)
    failed = cli("eval", "run", "my-env", *arguments, code=1).stderr
    assert "verifiers is not installed" in failed
    assert "hub install my-env" in failed
    assert "Traceback" not in failed
    assert not Path("outputs").exists()


NEEDS_SANDBOX = """
import verifiers as vf
from datasets import Dataset

class Env(vf.SingleTurnEnv):
    async def setup_state(self, state, **_):
        raise vf.SandboxError("No API key configured. Set PRIME_API_KEY environment variable.")

def load_environment():
    return Env(dataset=Dataset.from_list([{"question": "q", "answer": "a"}]), rubric=vf.Rubric())
"""


class Broken(LocalRunner):
    """Its environment fails as the runner says."""

    def __init__(self, code: str, message: str) -> None:
        self.error = EnvhubError(message, code=code, hint="what helps in a box")

    async def load(self, command: Load) -> Hello:
        raise self.error


@pytest.mark.parametrize(
    ("code", "message", "hint"),
    [
        ("dataset_needs_network", "words cannot be reached from the sandbox", "HF_ENDPOINT=http://hub.test/hf"),
        (
            "load_failed",
            "RuntimeError: closed\n  .../huggingface_hub/file_download.py",
            "HF_ENDPOINT=http://hub.test/hf",
        ),
        (
            "load_failed",
            "APIError: No API key configured. Set PRIME_API_KEY environment variable.",
            "hub sandbox serve",
        ),
        ("load_failed", "ValueError: no", ""),
        ("bad_arguments", "n is required", "what helps in a box"),
    ],
)
def test_hints_are_for_this_machine_and_not_for_a_box(code: str, message: str, hint: str) -> None:
    command = Load(env_id="tiny-env", module="tiny_env")
    with pytest.raises(EnvhubError) as caught:
        asyncio.run(load_here(Broken(code, message), command, "http://hub.test"))
    assert caught.value.hint.count(hint) == 1 if hint else not caught.value.hint
    assert "sandbox" not in caught.value.message


def test_a_module_that_is_not_there_is_asked_for_by_name() -> None:
    command = Load(env_id="tiny-env", module="tiny_env")
    with pytest.raises(EnvhubError) as caught:
        asyncio.run(load_here(Broken("import_error", "No module named 'tiny_env'"), command, "http://hub.test"))
    assert "[tool.envhub] module" in caught.value.hint


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter of this module's own, into which can be installed; it finds a kept verifiers 0.1.14."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (kept,) = python_of("0.1.14").parent.parent.glob("lib/python*/site-packages")
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "kept.pth").write_text(f"{kept}\n")
    return str(folder / "bin" / "python")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """A stub endpoint that always answers `cba`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "tests.fakes.policy_endpoint", "--port", str(port), "--text", "cba"]
    with subprocess.Popen(command) as process:
        for _ in range(200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/v1"
        process.terminate()


@pytest.mark.verifiers
def test_a_local_evaluation_is_written_where_users_look_and_uploaded(cli: Cli, python: str, endpoint: str) -> None:
    write_package(Path("environments"))
    cli("push", "tiny-env", "--no-wait")
    arguments = ("--local", "-m", "some/model", "-n", "2", "-r", "2", "-b", endpoint, "--python", python)
    done = cli.json("eval", "run", "tiny-env", *arguments)
    assert done["directory"].startswith("outputs/evals/tiny-env--some--model/")
    rows = [json.loads(line) for line in Path("outputs/evals/tiny-env/results.jsonl").read_text().splitlines()]
    assert [row["reward"] for row in rows] == [1.0, 1.0, 0.0, 0.0]
    assert (done["evaluation"]["source"], done["evaluation"]["summary"]["scored"]) == ("pushed", 4)
    again = cli.json("eval", "push", done["directory"])
    assert again["evaluation"]["id"] == done["evaluation"]["id"]
    assert RolloutIndex.objects.count() == 4


@pytest.mark.verifiers
def test_results_are_kept_when_the_environment_is_not_on_the_hub(cli: Cli, python: str, endpoint: str) -> None:
    write_package(Path("environments"))
    arguments = ("--local", "-m", "m", "-n", "1", "-r", "1", "-b", endpoint, "--python", python)
    result = cli("eval", "run", "tiny-env", *arguments)
    assert "hub push tiny-env" in result.stderr
    assert Path("outputs/evals/tiny-env/results.jsonl").exists()


@pytest.mark.verifiers
def test_an_installed_environment_is_evaluated_and_uploaded_to_its_owner(
    cli: Cli, python: str, endpoint: str, make_cli: MakeCli
) -> None:
    write_package(Path("elsewhere"), dependencies=())
    cli("push", "elsewhere/tiny_env", "--visibility", "public", "--no-wait")
    bob = make_cli(make_user("bob"))
    bob("install", "alice/tiny-env", "--python", python)
    arguments = ("--local", "-m", "m", "-n", "1", "-r", "1", "-b", endpoint, "--python", python, "--name", "mine")
    view = bob.json("eval", "run", "alice/tiny-env", *arguments)["evaluation"]
    assert (view["environment"], view["owner"], view["name"]) == ("alice/tiny-env", "bob", "mine")


@pytest.mark.verifiers
@pytest.mark.matrix
def test_a_rollout_that_finds_no_sandboxes_says_where_they_are(cli: Cli, python: str, endpoint: str) -> None:
    folder = Path("environments/needs_sandbox")
    folder.mkdir(parents=True)
    (folder / "pyproject.toml").write_text('[project]\nname = "needs-sandbox"\nversion = "1.0"\n')
    (folder / "needs_sandbox.py").write_text(NEEDS_SANDBOX)
    run = cli("eval", "run", "needs-sandbox", "--local", "-n", "1", "-r", "1", "--skip-upload", "--python", python,
              "-m", "m", "-b", endpoint, code=1)  # fmt: skip
    assert "hub sandbox serve -- hub eval run" in run.stderr
