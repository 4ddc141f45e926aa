"""The trace of a command: its span where it exports, the environment's TRACEPARENT where it does not."""

from __future__ import annotations

import time

import pytest
from envhub.cli.terminal.command_trace import traceparent

from tests.envhub.cli.conftest import Cli
from tests.factories.runs import make_run
from tests.fakes.otlp_receiver import OtlpReceiver

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
TRACEPARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


def test_a_command_that_exports_nothing_hands_the_environments_on() -> None:
    assert traceparent({"TRACEPARENT": TRACEPARENT}) == TRACEPARENT
    assert traceparent({"TRACEPARENT": "nonsense"}) == ""
    assert traceparent({}) == ""


def test_its_span_goes_on_where_the_environment_says(
    cli: Cli, receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEPARENT", TRACEPARENT)
    cli("run", "list", "--owner", cli.user.username)
    span = receiver.wait_for("hub run list")
    assert (span.service, span.trace_id, span.parent_id) == ("envhub-cli", TRACE, "00f067aa0ba902b7")
    assert cli.user.username not in str(span)


def test_a_command_that_fails_has_a_failed_span(cli: Cli, receiver: OtlpReceiver) -> None:
    cli("run", "show", "00000000", code=1)
    assert receiver.wait_for("hub run show").failed


def test_a_collector_that_hangs_costs_a_command_two_seconds(cli: Cli, receiver: OtlpReceiver) -> None:
    receiver.delay_s = 20
    began = time.monotonic()
    cli("run", "list")
    assert time.monotonic() - began < 10


def test_the_trace_of_a_run_is_shown(cli: Cli) -> None:
    run = make_run(created_by=cli.user, traceparent=TRACEPARENT)
    assert TRACE in cli("run", "show", str(run.pk)).stdout
    assert cli.json("run", "show", str(run.pk))["trace_id"] == TRACE
