"""What a worker checks and sets before Celery starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from workers.sandbox.backends import NAMES
from workers.settings import BadSettings, WorkerEnvironment
from workers.tasks.start_up import asked_queues, claim_data

SETTINGS = WorkerEnvironment(slots={"build": 2, "eval": 0, "train": 1})
WITHOUT_HUB = """
import sys
from workers.celery import app
app.loader.import_default_modules()
sys.exit("hub" in sys.modules)
"""


def celery(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """`celery -A workers worker` that is expected to end by itself."""
    command = [sys.executable, "-m", "celery", "-A", "workers", "worker", *arguments]
    return subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)


def test_nobody_else_may_enter_a_workers_data(tmp_path: Path) -> None:
    data = tmp_path / "worker"
    data.mkdir(0o755)
    with claim_data(WorkerEnvironment(data=data)):
        assert data.stat().st_mode & 0o777 == 0o700
        with pytest.raises(BadSettings, match="another worker"):
            claim_data(WorkerEnvironment(data=data))


def test_a_sandbox_that_does_not_exist_stops_the_worker_at_its_start() -> None:
    ended = celery(WORKER_SANDBOXES="container")
    assert ended.returncode == 2
    assert "WORKER_SANDBOXES" in ended.stderr
    assert all(repr(name) in ended.stderr for name in NAMES)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        pytest.param(("-Q", "build,cpu"), "-Q: there is no queue cpu", marks=pytest.mark.matrix),
        (("-P", "threads"), "-P: "),
        pytest.param(("--autoscale", "3,1"), "--a", marks=pytest.mark.matrix),
    ],
)
def test_an_option_of_celery_that_a_worker_cannot_follow_says_so(
    tmp_path: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    ended = celery(*arguments, WORKER_TOKEN="hubw_good", WORKER_DATA=str(tmp_path))
    assert (ended.returncode, complaint in ended.stderr) == (2, True), ended.stderr


@pytest.mark.parametrize(
    ("named", "slots", "forwarded"),
    [
        (None, {"build": 2, "train": 1}, ("serve", "sandbox")),
        ("build,eval,gpu", {"build": 2, "eval": 1, "gpu": 1}, ()),
        (["train", "serve"], {"train": 1}, ("serve",)),
    ],
)
def test_queues_are_those_of_the_settings_unless_they_are_named(
    named: object, slots: dict[str, int], forwarded: tuple[str, ...]
) -> None:
    assert asked_queues(SETTINGS, named) == (slots, forwarded)


def test_a_slot_of_no_queue_is_named() -> None:
    with pytest.raises(BadSettings, match="cpu"):
        asked_queues(WorkerEnvironment(slots={"cpu": 1}), None)


def test_a_worker_that_a_hub_starts_loads_no_hub() -> None:
    """An embedded worker inherits the hub's environment, and Celery sets up the Django that it finds there."""
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "hub.config.settings"}
    assert subprocess.run([sys.executable, "-c", WITHOUT_HUB], env=environment, check=False).returncode == 0
