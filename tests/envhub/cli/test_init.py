from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest
from envhub.packaging import generation
from envhub.packaging.build import build_package
from envhub.packaging.project import read_project
from envhub.protocol.registry.packages import Generation

from tests.envhub.cli.conftest import Cli

HEADINGS = ("Overview", "Dataset", "Task", "Quickstart", "Environment arguments", "Metrics")


@pytest.mark.parametrize("template", ["legacy", "current"])
def test_what_init_writes_builds_without_warnings(cli: Cli, template: str, tmp_path: Path) -> None:
    made = cli.json("init", "my-env", "--template", template)
    assert made["directory"] == "environments/my-env"
    built = build_package(read_project(Path("environments/my-env")), tmp_path / "out")
    assert (built.metadata.name, built.warnings) == ("my-env", ())
    readme = Path("environments/my-env/README.md").read_text()
    assert [line for line in readme.splitlines() if line.startswith("## ")] == [f"## {name}" for name in HEADINGS]
    for path in Path("environments/my-env").rglob("*.py"):
        ast.parse(path.read_text())


@pytest.mark.parametrize(("template", "expected"), [("legacy", Generation.LEGACY), ("current", Generation.CURRENT)])
def test_a_template_is_classified_as_what_it_is(cli: Cli, template: str, expected: Generation) -> None:
    cli("init", "my-env", "--template", template)
    root = Path("environments/my-env")
    files = {str(path.relative_to(root)): path.read_text() for path in root.rglob("*.py") if "tests" not in path.parts}
    table = tomllib.loads((root / "pyproject.toml").read_text())
    assert generation.classify(files, table["project"]["dependencies"], {}).generation is expected


def test_the_reward_of_the_legacy_template_works(cli: Cli) -> None:
    cli("init", "my-env")
    tree = ast.parse(Path("environments/my-env/my_env.py").read_text())
    names = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert {"correct_answer", "load_environment"} <= names


@pytest.mark.parametrize("name", ["My Env", "-env", "9lives", "a/b", "env!"])
def test_names_that_cannot_be_environments_are_refused(cli: Cli, name: str) -> None:
    cli("init", "--", name, code=2)


@pytest.mark.parametrize("name", ["math", "Random", "code", "concurrent"])
def test_names_of_the_standard_library_are_refused(cli: Cli, name: str) -> None:
    refused = cli("init", name, code=2).stderr
    assert "standard library" in refused
    assert f"{name.lower()}-env" in refused
    assert not Path("environments").exists()


def test_the_name_of_what_the_templates_import_is_refused(cli: Cli) -> None:
    assert "my-datasets" in cli("init", "datasets", code=2).stderr


def test_an_existing_directory_is_left_alone(cli: Cli) -> None:
    Path("environments/my-env").mkdir(parents=True)
    assert "already exists" in cli("init", "my-env", code=2).stderr


@pytest.mark.parametrize(("path", "pushed"), [("environments", "my-env"), (".", "my-env"), ("mine", "mine/my-env")])
def test_the_next_command_finds_what_was_written(cli: Cli, path: str, pushed: str) -> None:
    assert f"next: hub push {pushed}\n" in cli("init", "my-env", "--path", path).stdout
    cli("push", pushed, "--no-wait")


def test_what_init_writes_is_pushed(cli: Cli) -> None:
    cli("init", "my_env")
    assert cli.json("push", "my-env", "--no-wait")["version"]["name"] == "my-env"
