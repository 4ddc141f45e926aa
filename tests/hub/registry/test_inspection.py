"""What is read out of a package: its entry module, its tags, the programs that its tools start."""

from __future__ import annotations

import pytest

from hub.core.errors import HubError, Invalid
from hub.registry.models import Version
from hub.registry.tool_programs import tool_programs
from tests.factories.accounts import make_user
from tests.factories.packages import CURRENT_SOURCE, LEGACY_SOURCE
from tests.factories.registry import build_pair, push_pair

PROGRAMS = [
    ('vf.MCPToolConfig(command="uvx", args=["mcp-server-fetch"])', ("mcp-server-fetch",)),
    ('Tool(command="uvx", args=["mcp-fetch@1.2", "--verbose"])', ("mcp-fetch==1.2",)),
    ('Tool(command="uvx", args=["mcp-fetch@latest"])', ("mcp-fetch",)),
    ('{"command": "uvx", "args": ["--with", "httpx", "--from", "mcp[cli]>=1", "mcp"]}', ("httpx", "mcp[cli]>=1")),
    ('run(["uvx", "--python", "3.12", "ruff"])', ("ruff",)),
    ('run(["uv", "tool", "run", "--from=black==24.1", "black"])', ("black==24.1",)),
    ('Tool(command="uvx", args=["--from", "git+https://example.org/x", "x"])', ()),
    ('Tool(command="npx", args=["server"])', ()),
    ('Tool(command="uvx", args=arguments)', ()),
    ("uvx = (", ()),
]


@pytest.mark.parametrize(("source", "found"), PROGRAMS)
def test_programs_started_by_uvx_are_found(source: str, found: tuple[str, ...]) -> None:
    assert tool_programs({"a.py": source}, {}) == found


def test_declared_programs_come_first_and_once() -> None:
    source = 'run(["uvx", "ruff"])'
    assert tool_programs({"a.py": source}, {"programs": ["black", "ruff"]}) == ("black", "ruff")


@pytest.mark.parametrize("declared", ["ruff", [1], ["x @ http://127.0.0.1/x.whl"], ["not a requirement"]])
def test_a_declaration_that_is_no_list_of_plain_requirements_is_refused(declared: object) -> None:
    with pytest.raises(Invalid):
        tool_programs({}, {"programs": declared})


def push(**kwargs: object) -> Version:
    return push_pair(make_user(), build_pair(**kwargs)).version  # type: ignore[arg-type]


@pytest.mark.django_db
def test_the_entry_module_is_named_like_the_package() -> None:
    assert push(files={"helpers/__init__.py": "", "other.py": ""}).module == "tiny_env"


@pytest.mark.django_db
def test_the_entry_module_may_be_named_otherwise_by_declaration() -> None:
    version = push(files={"entry/__init__.py": ""}, pyproject='[tool.envhub]\nmodule = "entry"')
    assert version.module == "entry"


@pytest.mark.django_db
def test_a_declared_module_that_is_not_there_is_refused() -> None:
    with pytest.raises(HubError) as caught:
        push(pyproject='[tool.envhub]\nmodule = "nowhere"')
    assert caught.value.code == "no_module"


@pytest.mark.django_db
def test_of_modules_named_otherwise_the_only_one_with_an_environment_is_the_entry_module() -> None:
    loader = {"game.py": LEGACY_SOURCE, "tests/test_game.py": LEGACY_SOURCE}
    assert push(module="rewards", source="", files=loader).module == "game"
    assert push(version="0.2.0", module="rewards", source="", files={"words.py": CURRENT_SOURCE}).module == "words"


@pytest.mark.django_db
@pytest.mark.parametrize("loader", ["maze:load_environment", "maze.levels:make", "maze"])
def test_a_stated_loader_chooses_among_several_modules(loader: str) -> None:
    stated = f'[tool.prime.environment]\nloader = "{loader}"'
    several = {"maze/__init__.py": LEGACY_SOURCE, "rewards.py": LEGACY_SOURCE}
    assert push(module="game", files=several, pyproject=stated).module == "maze"


@pytest.mark.django_db
def test_a_loader_that_is_not_there_changes_nothing() -> None:
    """Templates are copied without it."""
    stated = '[tool.prime.environment]\nloader = "my_new_env:load_environment"'
    assert push(pyproject=stated).module == "tiny_env"
    assert push(version="0.2.0", pyproject="[tool.prime]\nenvironment = 3").module == "tiny_env"


@pytest.mark.django_db
def test_of_several_modules_with_environments_the_author_must_choose() -> None:
    with pytest.raises(HubError) as caught:
        push(module="game", files={"maze.py": LEGACY_SOURCE, "rewards.py": ""})
    said = "the package has no module tiny_env: environments are in game, maze"
    assert (caught.value.code, caught.value.message) == ("no_module", said)


@pytest.mark.django_db
def test_a_module_that_the_standard_library_hides_is_refused() -> None:
    with pytest.raises(HubError) as caught:
        push(name="random", files={"words.py": ""})
    assert caught.value.code == "standard_module"
    declared = '[tool.envhub]\nmodule = "words"'
    assert push(name="random", files={"words.py": LEGACY_SOURCE}, pyproject=declared).module == "words"


@pytest.mark.django_db
def test_tags_are_cleaned_and_bounded() -> None:
    tags = ", ".join(f'"Tag{n} "' for n in range(30))
    version = push(pyproject=f"[tool.envhub]\ntags = [{tags}, 7]")
    assert version.tags[:2] == ["tag0", "tag1"]
    assert len(version.tags) == 20


@pytest.mark.django_db
def test_the_generation_can_be_declared_and_the_evidence_says_so() -> None:
    evidence = push(pyproject='[tool.envhub]\ngeneration = "current"').evidence
    assert evidence is not None
    assert (evidence["generation"], any("generation" in reason for reason in evidence["reasons"])) == ("current", True)


@pytest.mark.django_db
def test_the_tables_of_pyproject_are_kept() -> None:
    pyproject = "[tool.verifiers.eval]\nnum_examples = 5\nsince = 2026-01-01\n[tool.envhub]\nenv_args = {n = 1}\n"
    version = push(pyproject=pyproject)
    assert version.eval_config == {"num_examples": 5, "since": "2026-01-01"}
    assert version.hub_config == {"env_args": {"n": 1}}
