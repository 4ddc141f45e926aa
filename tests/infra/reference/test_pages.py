"""Pages that are made from the code are of this code; what other pages tell people to type exists."""

from __future__ import annotations

import ast
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from envhub.cli.main import app
from typer.main import get_command

from hub.web.documentation.contents import ENTRIES, ROOT
from infra.reference.errors import Told, raised
from infra.reference.pages import PAGES

WRITTEN = [ROOT / entry.file for entry in ENTRIES.values() if ROOT / entry.file not in PAGES]
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_page_is_what_the_code_makes(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == PAGES[path](), "python -m infra.reference"


def lines_of(text: str) -> list[str]:
    """What is shown to be typed that begins with `hub`, without comments, pipes and redirections."""
    shown = [line for block in FENCE.findall(text) for line in block.splitlines() if line.startswith("hub ")]
    shown += re.findall(r"`(hub [^`]+)`", FENCE.sub("", text))
    return [re.split(r"\s+#| \||\s<", line)[0] for line in shown]


@pytest.mark.parametrize("path", WRITTEN, ids=lambda path: path.stem)
def test_commands_that_are_told_exist_with_their_options(path: Path) -> None:
    for line in lines_of(path.read_text(encoding="utf-8")):
        _, *words = shlex.split(line)
        command: Any = get_command(app)
        context = typer.Context(command, info_name="hub")
        while words and hasattr(command, "get_command") and re.fullmatch("[a-z-]+", words[0]):
            command = command.get_command(context, words.pop(0))
            assert command is not None, line
        known = {name for one in command.get_params(context) for name in (*one.opts, *one.secondary_opts)}
        used = {word.partition("=")[0] for word in words if re.fullmatch(r"--?[a-zA-Z][\w-]*(=.*)?", word)}
        assert used <= known, line


def test_a_place_that_raises_is_told_with_what_only_a_run_knows_left_open() -> None:
    source = """
HINT = "Ask " "somebody."
raise NotFound(f"no model {name}", code="model_not_found", hint=HINT)
raise Invalid(str(error), code="passed_on")
raise Conflict("no code")
"""
    assert list(raised(ast.parse(source))) == [("model_not_found", Told("no model …", "Ask somebody."))]
