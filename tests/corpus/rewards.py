"""The scores of a hosted evaluation against those of the library's own command line, on the same rows and answers.

A plain virtual environment by uv with the very releases of the version's lock; its `vf-eval` runs outside of any box.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from envhub.protocol.builds import EnvironmentLock
from uv import find_uv_bin

from tests.corpus.trials import Trial
from tests.e2e.stack import Stack
from workers.venvs.layout import LOCK_FILE

INSTALL_S, RUN_S = 900, 300
EVAL = """
import sys
from importlib.metadata import entry_points
(found,) = [one for one in entry_points(group="console_scripts") if one.name == "vf-eval"]
sys.argv[0] = "vf-eval"
found.load()()
"""


def table(stack: Stack, endpoint: str, trials: Sequence[Trial]) -> str:
    """One line for each evaluation that scored something: both scores, and whether they agree rollout by rollout."""
    lines = ["| package | hosted | bare | agree |", "|---|---|---|---|"]
    for trial in trials:
        if trial.view is None or all(reward is None for reward in trial.rewards):
            continue
        try:
            bare: object = bare_rewards(trial, locked(stack, trial), endpoint, data_variables(stack))
        except (subprocess.SubprocessError, ValueError, LookupError) as error:
            bare = f"{type(error).__name__}: {str(getattr(error, 'stderr', None) or error)[-300:]}"
        agree = bare == trial.rewards
        lines.append(f"| {trial.package.directory.name} | {trial.rewards} | {bare} | {'yes' if agree else 'NO'} |")
    return "\n".join(lines)


def locked(stack: Stack, trial: Trial) -> dict[str, str]:
    """Name -> version of the version's lock, from the environment that the worker made of it."""
    assert trial.view is not None
    said = next(check.summary for check in trial.view.checks if check.name == "install")
    (venv,) = Path(stack.settings["WORKER_DATA"], "venvs/venvs").glob(f"{said.split()[-1]}*")
    lock = EnvironmentLock.model_validate_json((venv / LOCK_FILE).read_text())
    return {wheel.name: wheel.version for wheel in lock.wheels if not wheel.owned and not wheel.tool}


def bare_rewards(trial: Trial, wheels: Mapping[str, str], endpoint: str, data: Mapping[str, str]) -> list[float | None]:
    """Rewards of examples 0 and 1. `wheels`: name -> version of the lock; `endpoint`: the scripted model's base URL.

    Raises subprocess.CalledProcessError with what the library printed.
    """
    assert trial.view is not None
    with tempfile.TemporaryDirectory(prefix="corpus-rewards-") as folder:
        home = Path(folder)
        python = _install(home, trial.package.directory, wheels)
        arguments = _legacy(endpoint) if not wheels.get("verifiers", "").startswith("0.4") else _current(endpoint)
        variables = {"HOME": str(home), "STUB_KEY": "stub", "OPENAI_API_KEY": "stub", "OPENAI_BASE_URL": endpoint}
        _run([str(python), "-c", EVAL, trial.view.name, *arguments], home, RUN_S, **variables, **data)
        return _read(home)


def data_variables(stack: Stack) -> dict[str, str]:
    """By which the Hugging Face libraries find the hub's data sets."""
    return {"HF_ENDPOINT": f"{stack.url}/hf", "HF_TOKEN": stack.token, "HF_HUB_DISABLE_XET": "1"}


def _install(home: Path, package: Path, wheels: Mapping[str, str]) -> Path:
    venv, uv = home / "venv", find_uv_bin()
    python = venv / "bin/python"
    _run([uv, "venv", "-q", str(venv)], home, INSTALL_S)
    pins = [f"{name}=={version}" for name, version in wheels.items()]
    _run([uv, "pip", "install", "-q", "--no-deps", "--python", str(python), str(package), *pins], home, INSTALL_S)
    return python


def _legacy(endpoint: str) -> list[str]:
    return ["-m", "stub", "-b", endpoint, "-k", "STUB_KEY", "-n", "2", "-r", "1", "-s"]


def _current(endpoint: str) -> list[str]:
    model = ["-m", "stub", "-n", "2", "-r", "1", "--client.base-url", endpoint, "--client.api-key-var", "STUB_KEY"]
    agent = ["--env.agent.runtime.type", "subprocess", "--env.agent.harness.id", "null"]
    return [*model, *agent, "--no-rich", "--no-push", "-o", "outputs"]


def _run(command: list[str], home: Path, seconds: int, **variables: str) -> None:
    """With this machine's own variables: they say where its package index is."""
    environment = {**os.environ, **variables}
    done = subprocess.run(
        command, cwd=home, env=environment, capture_output=True, text=True, timeout=seconds, check=False
    )
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout[-4000:], done.stderr[-4000:])


def _read(home: Path) -> list[float | None]:
    """Rewards by example of whatever results file the release writes."""
    (path,) = [*home.rglob("results.jsonl"), *home.rglob("traces.jsonl")]
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    return [_reward(row) for row in sorted(rows, key=_example)]


def _example(row: dict[str, Any]) -> int:
    task = row.get("task")
    data = task.get("data", task) if isinstance(task, dict) else {}
    found = (row.get("example_id"), data.get("idx"), row.get("id"))
    return next((number for number in found if isinstance(number, int)), 0)


def _reward(row: dict[str, Any]) -> float | None:
    failed = row.get("error") or row.get("errors")
    return None if failed else float(row["reward"])
