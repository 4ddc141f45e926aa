"""An environment that loads or describes for too long is ended, and its failure names the setting."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from envhub.protocol.runner import Load

from workers.rollouts.errors import RunnerFatal
from workers.rollouts.session import open_runner
from workers.sandbox import Bind, BoxSpec, backend

FAKE_RUNNER = Path(__file__).parents[2] / "fakes" / "runner"
PREFIX = Path(sys.base_prefix)
INTERPRETER = () if PREFIX.is_relative_to("/usr") else (Bind(PREFIX, str(PREFIX)),)
pytestmark = pytest.mark.sandbox


@pytest.mark.parametrize(
    ("slow", "what"),
    [({"load_s": 60}, "Loading"), pytest.param({"describe_s": 60}, "Describing", marks=pytest.mark.matrix)],
)
async def test_the_limit_is_held_and_named(tmp_path: Path, slow: dict[str, Any], what: str) -> None:
    sockets = tmp_path / "s"
    sockets.mkdir()
    spec = BoxSpec(binds=(Bind(FAKE_RUNNER, "/opt/envhub/envhub_runner"), *INTERPRETER), sockets=sockets)
    python = PREFIX / "bin" / "python3"
    async with (
        backend("bwrap", tmp_path / "boxes").create(spec) as box,
        open_runner(box, sockets=sockets, python=python, log=print, load_limit_s=0.5) as runner,
    ):
        with pytest.raises(RunnerFatal, match=rf"{what} the environment took longer than 0\.5 s \(WORKER_LOAD_LIMIT_S"):
            await load_and_describe(runner, slow)


async def load_and_describe(runner: Any, slow: dict[str, Any]) -> None:
    await runner.load(Load(env_id="fake", module="fake", env_args=slow))
    await runner.describe()
