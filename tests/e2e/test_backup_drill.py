"""A live hub is backed up while an evaluation writes, and restored elsewhere; the restored hub answers the same."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.e2e import reversing
from tests.e2e.stack import Stack, free_port
from tests.hub.backups.site import new_identity

pytestmark = [pytest.mark.verifiers, pytest.mark.sandbox]
NO_SERVICES = {"HUB_DATABASE_URL": "", "HUB_BROKER_URL": ""}  # the restored hub is the embedded one


@contextmanager
def restored(stack: Stack, data: Path, there: Path, identity: Path) -> Iterator[Stack]:
    """A hub of its own with what the backup holds, and the keys that it does not hold."""
    data.mkdir()
    shutil.copy(stack.data / "secret_key", data)
    settings = {**stack.settings, **NO_SERVICES}
    made = replace(stack, data=data, port=free_port(), serve=None, settings=settings, options=("--no-worker",))
    made.manage("restore", str(there), "--identity", str(identity))
    try:
        made.start()
        yield made
    finally:
        assert not made.stop()


def told(stack: Stack, environment: str, folder: Path) -> dict[str, Any]:
    """What users see of it, and all its files."""
    folder.mkdir()
    with stack.client() as hub:
        version = hub.environments.version(environment)
        kinds = ("wheel", "sdist")
        files = [hub.environments.download(environment, version, kind, folder / kind) for kind in kinds]
        return {
            "environments": list(hub.environments.list()),
            "version": version,
            "lock": [(wheel.name, wheel.version, wheel.sha256) for wheel in hub.environments.lock(environment).wheels],
            "files": [path.read_bytes() for path in files],
            "models": [model.name for model in hub.models.list()],
        }


def test_a_hub_that_is_at_work_is_backed_up_and_answers_the_same_elsewhere(stack: Stack, tmp_path: Path) -> None:
    environment = reversing.push_reverse_text(stack)
    there, identity = tmp_path / "there", tmp_path / "identity"
    stack.settings = {**stack.settings, "HUB_BACKUP_RECIPIENTS": f'["{new_identity(identity)}"]'}
    model = reversing.slow_endpoint(5.0)
    evaluation = reversing.start(stack, environment, stack.register(model))
    before = reversing.await_stored(stack, evaluation.id)
    stack.manage("backup", str(there))
    after = {(row.example, row.rollout): row for row in stack.rollouts(evaluation.id)}
    assert before <= len(after) < reversing.TOTAL, "the evaluation was over before the backup"
    model.latency_s = 0.1
    with restored(stack, tmp_path / "restored", there, identity) as copy:
        assert told(copy, environment, tmp_path / "a") == told(stack, environment, tmp_path / "b")
        rows = {(row.example, row.rollout): row for row in copy.rollouts(evaluation.id)}
        assert before <= len(rows) <= len(after)
        assert rows.items() <= after.items()
        with copy.client() as there_hub, stack.client() as here_hub:
            for example, rollout in list(rows)[:3]:
                answers = [hub.evaluations.rollout(evaluation.id, example, rollout) for hub in (there_hub, here_hub)]
                assert answers[0] == answers[1]
        reversing.check_examples(copy, evaluation.id, tmp_path)
    assert stack.finished(evaluation.id).summary.stored == reversing.TOTAL
