"""Commands of a rollout's sandboxes, each after the model call that caused it."""

from __future__ import annotations

import pytest
from envhub.protocol.evals.rollouts import SandboxCommand, SandboxUse, Turn
from envhub.protocol.sandboxes.live import command_line

from hub.evals.reading.sandbox_view import commands_after, sandboxes_of
from tests.factories.evals import make_record


def turn(index: int, started_s: float, route: str = "policy") -> Turn:
    return Turn(
        index=index, route=route, protocol="chat", model="m", request={}, response={},
        started_s=started_s, latency_s=1.0,
    )  # fmt: skip


def command(started_s: float) -> SandboxCommand:
    return SandboxCommand(argv=("bash", "-c", "ls"), cwd="/", started_s=started_s, seconds=0.1, exit_code=0, output="a")


def test_a_command_belongs_to_the_last_call_that_was_answered() -> None:
    use = SandboxUse(
        id="a", image="b", state="timed_out", cpus=1, memory_mb=1, created_s=0, seconds=9,
        commands=tuple(map(command, (0.5, 1.5, 2.5, 9.0))),
    )  # fmt: skip
    record = make_record().model_copy(
        update={"turns": (turn(0, 0.0), turn(1, 2.0), turn(2, 3.5, "judge")), "sandboxes": (use,)}
    )
    (shown,) = sandboxes_of(record)
    assert [one.call for one in shown.commands] == [None, 0, 0, 1]
    assert commands_after([shown]) == {0: 2, 1: 1}
    assert shown.state == "timed out"


@pytest.mark.parametrize(
    ("argv", "shown"),
    [
        (("/bin/bash", "-c", "ls | wc"), "ls | wc"),
        (("bash", "-lc", "x"), "x"),
        (("python3", "-c", "print(1)"), "python3 -c print(1)"),
        (("sh", "script"), "sh script"),
    ],
)
def test_a_command_is_shown_as_one_types_it(argv: tuple[str, ...], shown: str) -> None:
    assert command_line(argv) == shown
