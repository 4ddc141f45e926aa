from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from workers.venvs import interpreters
from workers.venvs.errors import ToolFailed
from workers.venvs.unprivileged import BUILDER_UID, Tool, run_tool

OWN = interpreters.present()[0]


def tool(code: str, folder: Path, **more: object) -> Tool:
    argv = [str(OWN.executable), "-I", "-S", "-c", code]
    return Tool(argv, cwd=folder, reads=[OWN.prefix], writes=[folder], **more)  # type: ignore[arg-type]


async def test_a_tool_has_a_bare_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKER_TOKEN", "secret")
    folder = tmp_path / "own"
    folder.mkdir()
    result = await run_tool(tool("import os, json; print(json.dumps(dict(os.environ)))", folder))
    assert set(json.loads(result.stdout)) <= {"PATH", "LANG", "LC_CTYPE", "PWD", "OLDPWD", "SHLVL", "_"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
async def test_a_tool_of_root_is_another_user_that_sees_only_what_it_was_given(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "private").write_text("x")
    folder = tmp_path / "own"
    folder.mkdir()
    code = f"import os; print(os.getuid(), os.getgroups(), os.listdir({str(tmp_path)!r})); open('made', 'w')"
    result = await run_tool(tool(code, folder))
    assert result.stdout == f"{BUILDER_UID} [] ['own']\n", result.stderr
    assert (folder / "made").stat().st_uid == BUILDER_UID


async def test_a_tool_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    code = "import subprocess, sys; subprocess.run([sys.executable, '-I', '-c', 'import time; time.sleep(60)'])"
    with pytest.raises(ToolFailed, match="took more than"):
        await run_tool(tool(code, folder, timeout=1.0))


async def test_a_tools_exit_code_is_kept(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    assert (await run_tool(tool("raise SystemExit(7)", folder))).exit_code == 7
