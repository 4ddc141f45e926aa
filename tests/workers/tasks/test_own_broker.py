"""The broker of a worker that cannot reach the hub's."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from envhub.protocol.runs import RunTask

from workers.tasks.own_broker import OwnBroker


def test_a_task_that_cannot_be_written_is_left_to_the_hub(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "broker"
    folder.mkdir()
    broker = OwnBroker(folder)
    task = RunTask(run_id="r1", queue="eval", task_id="r1.1.1", label="run.eval")
    broker.send(task, "w1")
    assert [path.name.partition(".")[2] for path in folder.glob("*.msg")] == ["eval.w1.msg"]
    shutil.rmtree(folder)
    folder.touch()  # as good as a full disk: nothing can be written below it
    broker.send(task, "w1")
    assert "r1.1.1 is not passed on" in caplog.text
