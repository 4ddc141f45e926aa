"""Sandboxes in any state, without a worker."""

from __future__ import annotations

from typing import Any

from django.utils import timezone
from envhub.protocol.runs import RunState
from envhub.protocol.sandboxes.sandboxes import SandboxReport, SandboxRequest, SandboxState

from hub.accounts.models import User
from hub.runs.services import end_attempt
from hub.sandboxes.models import Sandbox
from hub.sandboxes.services import create_sandbox, note_report
from tests.factories.runs import hold_run

SECRET = "s" * 32


def create_pending(user: User, **fields: Any) -> Sandbox:
    """One that waits for a worker."""
    return create_sandbox(user=user, request=SandboxRequest(**fields))


def create_running(user: User, *, base_url: str = "http://127.0.0.1:9", **fields: Any) -> Sandbox:
    """One whose worker has said where it answers: by default nobody does."""
    return run(create_pending(user, **fields), base_url=base_url)


def run(sandbox: Sandbox, *, base_url: str) -> Sandbox:
    """Its worker says where it answers."""
    hold_run(sandbox.run, state=RunState.RUNNING)
    report = SandboxReport(state=SandboxState.RUNNING, base_url=base_url, secret=SECRET, cpus=1.0, memory_mb=1024)
    return note_report(run=sandbox.run, report=report, now=timezone.now())


def create_ended(user: User, **fields: Any) -> Sandbox:
    """One whose time is over."""
    return end(create_running(user, **fields))


def end(sandbox: Sandbox) -> Sandbox:
    """Its time is over."""
    over = SandboxReport(state=SandboxState.TIMED_OUT, reason="its lifetime was over")
    note_report(run=sandbox.run, report=over, now=timezone.now())
    end_attempt(run=sandbox.run, to=RunState.SUCCEEDED, now=timezone.now())
    return Sandbox.objects.get(pk=sandbox.pk)
