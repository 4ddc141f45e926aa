"""Lists of commands are printed without importing the commands, and say what each of them says itself."""

from __future__ import annotations

import subprocess
import sys

import pytest
from envhub.cli.lazy_group import Table, summary
from envhub.cli.main import COMMANDS, HubGroup

GROUPS = {"hub": COMMANDS, **{name: table for name, table in COMMANDS.items() if not isinstance(table, str)}}


@pytest.mark.parametrize("table", GROUPS.values(), ids=GROUPS)
def test_a_command_is_listed_with_its_own_first_sentence(table: Table) -> None:
    group = type("Group", (HubGroup,), {"table": table})(name="group", commands={})
    own = {name: group.get_command(None, name).get_short_help_str(1000) for name in group.list_commands(None)}
    assert {name: summary(table[name]) for name in own} == own


@pytest.mark.parametrize("arguments", [["--help"], ["env", "--help"]])
def test_help_imports_neither_commands_nor_wire_types(arguments: list[str]) -> None:
    code = f"""
import sys
from envhub.cli.main import app
try:
    app({arguments})
except SystemExit:
    groups = ("envhub.cli.environments.push", "envhub.cli.environments.commands")
    heavy = (*groups, "envhub.protocol.registry.packages", "envhub.protocol.runs")
    sys.exit(", ".join(name for name in heavy if name in sys.modules) or 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
