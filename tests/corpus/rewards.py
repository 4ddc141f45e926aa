"""The scores of a hosted evaluation against those of the library's own command line, on the same rows and answers.

A plain virtual environment by uv with the very releases of the version's lock; `vf_eval.py` runs there, outside of any
box. Rollouts are compared by what their example asks, since packages may order their rows anew at each load.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from envhub.errors import PackageError
from envhub.packaging.example_content import content_hash
from envhub.packaging.saved.finding import read_saved_results
from envhub.protocol.evals.rollouts import RolloutRecord
from envhub.protocol.registry.builds import EnvironmentLock
from uv import find_uv_bin

from tests.corpus.trials import Trial
from tests.e2e.stack import Stack
from workers.venvs.layout import LOCK_FILE

INSTALL_S, RUN_S = 900, 1800  # a machine that does much else is slow
PROGRAM = Path(__file__).with_name("vf_eval.py")
ALL = -1


@dataclass(frozen=True)
class Bare:
    """What the library's own command saved, and what it printed meanwhile."""

    records: tuple[RolloutRecord, ...]
    printed: str


Scores = dict[str, list[float | None]]  # what an example asks -> the rewards of its rollouts; None for a failed one


def table(stack: Stack, endpoint: str, trials: Sequence[Trial]) -> str:
    """One line for each evaluation that scored something: both scores, and whether they agree rollout by rollout."""
    lines = ["| package | verifiers | hosted | bare | agree |", "|---|---|---|---|---|"]
    for trial in trials:
        if trial.view is None or all(record.reward is None for record in trial.records):
            continue
        hosted = scores(trial.records)
        try:
            bare, said = seen_by_both(trial, stack, endpoint)
        except (subprocess.SubprocessError, PackageError, LookupError) as error:
            bare, said = {}, f"{type(error).__name__}: {str(getattr(error, 'stderr', None) or error)[-300:]}"
        agree = "yes" if bare == {key: hosted[key] for key in bare} else "NO"
        agree = agree if bare else "nothing to compare"
        name = f"{trial.package.group}/{trial.package.directory.name}"
        release = locked(stack, trial).get("verifiers", "")
        lines.append(f"| {name} | {release} | {_shown(hosted)} | {_shown(bare)} | {' '.join([agree, said]).strip()} |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def seen_by_both(trial: Trial, stack: Stack, endpoint: str) -> tuple[Scores, str]:
    """The bare scores of the examples that the hosted evaluation saw, and a note where these are not simply the first.

    What a package shuffles without a seed is evaluated bare on all of its rows.
    """
    hosted = scores(trial.records)
    bare = scores(bare_run(trial, stack, endpoint, trial.examples).records)
    in_order = hosted.keys() == bare.keys()
    if not in_order:
        bare |= scores(bare_run(trial, stack, endpoint, ALL).records)
    both = {key: bare[key] for key in hosted if key in bare}
    if in_order:
        return both, ""
    return both, f"({len(both)} of {len(hosted)} examples in both: it makes or orders its rows anew at each load)"


def scores(records: Iterable[RolloutRecord]) -> Scores:
    """Rewards by what was asked. A failed rollout may not tell that: it has the name of a sibling, else its number."""
    found: defaultdict[str, list[float | None]] = defaultdict(list)
    asked = [(record, content_hash(record)) for record in records]
    names = {record.example: name for record, name in asked if name}
    for record, name in asked:
        found[name or names.get(record.example, str(record.example))].append(record.reward)
    return {key: sorted(rewards, key=lambda reward: (reward is None, reward or 0.0)) for key, rewards in found.items()}


def _shown(found: Scores) -> str:
    return "; ".join(", ".join("-" if one is None else f"{one:.4g}" for one in rewards) for rewards in found.values())


def locked(stack: Stack, trial: Trial) -> dict[str, str]:
    """Name -> version of the version's lock, from the environment that the worker made of it."""
    assert trial.view is not None
    said = next(check.summary for check in trial.view.checks if check.name == "install")
    (venv,) = Path(stack.settings["WORKER_DATA"], "venvs/venvs").glob(f"{said.split()[-1]}*")
    lock = EnvironmentLock.model_validate_json((venv / LOCK_FILE).read_text())
    return {wheel.name: wheel.version for wheel in lock.wheels if not wheel.owned and not wheel.tool}


def bare_run(trial: Trial, stack: Stack, endpoint: str, examples: int) -> Bare:
    """The library's own command on as many examples. `endpoint`: the scripted model's base URL.

    Raises subprocess.CalledProcessError with what it printed, and PackageError when it saved nothing.
    """
    python = _environment(stack.data / "bare", locked(stack, trial))
    with tempfile.TemporaryDirectory(prefix="corpus-rewards-") as folder:
        home = Path(folder)
        package = _install(python, home, trial.package.directory)
        variables = {"HOME": str(home), "PYTHONPATH": str(package), "UV_CACHE_DIR": _uv_cache()}
        command = [str(python), str(PROGRAM), trial.module, endpoint, str(examples), str(trial.rollouts)]
        printed = _run(command, home, RUN_S, **variables, **data_variables(stack))
        printed += "".join(log.read_text(errors="replace") for log in home.rglob("env_*.log"))  # of its server
        saved = [*home.rglob("results.jsonl"), *home.rglob("traces.jsonl")]
        return Bare(read_saved_results(saved[0].parent if saved else home).records, printed)


def data_variables(stack: Stack) -> dict[str, str]:
    """By which the Hugging Face libraries find the hub's data sets."""
    return {"HF_ENDPOINT": f"{stack.url}/hf", "HF_TOKEN": stack.token, "HF_HUB_DISABLE_XET": "1"}


def _environment(folder: Path, wheels: Mapping[str, str]) -> Path:
    """The interpreter of an environment with these releases: many packages have the same."""
    pins = sorted(f"{name}=={version}" for name, version in wheels.items())
    venv = folder / hashlib.sha256("\n".join(pins).encode()).hexdigest()[:16]
    python = venv / "bin/python"
    if not (venv / "ready").exists():
        folder.mkdir(exist_ok=True)
        _run([find_uv_bin(), "venv", "-q", "--clear", str(venv)], folder, INSTALL_S)
        install = [find_uv_bin(), "pip", "install", "-q", "--no-deps", "--python", str(python), *pins]
        _run(install, folder, INSTALL_S)
        (venv / "ready").touch()
    return python


def _install(python: Path, home: Path, package: Path) -> Path:
    """Where the package alone was installed to."""
    target = home / "package"
    into = ["--no-deps", "--python", str(python), "--target", str(target)]
    _run([find_uv_bin(), "pip", "install", "-q", *into, str(package)], home, INSTALL_S)
    return target


def _uv_cache() -> str:
    done = subprocess.run([find_uv_bin(), "cache", "dir"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _run(command: list[str], home: Path, seconds: int, **variables: str) -> str:
    """What it printed. With this machine's own variables: they say where its package index is."""
    path = f"{Path(find_uv_bin()).parent}:{os.environ['PATH']}"  # harnesses and verifiers are scripts that uv runs
    environment = {**os.environ, "PATH": path, **variables}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # the environment is used again: compile it once
    done = subprocess.run(
        command, cwd=home, env=environment, capture_output=True, text=True, timeout=seconds, check=False
    )
    if done.returncode:
        raise subprocess.CalledProcessError(done.returncode, command, done.stdout[-4000:], done.stderr[-4000:])
    return done.stdout + done.stderr
