"""Follows a hosted evaluation until its run has ended, and says what the command's status is then."""

from __future__ import annotations

from collections.abc import Iterable

import typer

from envhub.cli.terminal.progress import goes_on, run_progress
from envhub.cli.terminal.session import Session
from envhub.protocol.evals.evaluations import EvaluationView
from envhub.protocol.runs import RunState


def follow(session: Session, view: EvaluationView) -> EvaluationView:
    """Show progress until the evaluation's run has ended; returns the final view."""
    if view.run_id:
        advice = f"show it with `hub eval show {view.id}`, cancel it with `hub eval cancel {view.id}`"
        with goes_on(session, advice), run_progress(session, view.environment) as show:
            for state in session.hub.runs.watch(view.run_id):
                show(state)
        if state.failure:
            session.note(f"{view.environment}: {state.failure.message}")
            if state.failure.hint:
                session.note(f"hint: {state.failure.hint}")
    return session.hub.evaluations.get(view.id)


def exit_unless_scored(views: Iterable[EvaluationView]) -> None:
    """Exit 1 if an evaluation that was waited for did not succeed, or scored no rollout."""
    if any(view.state is not RunState.SUCCEEDED or not view.summary.scored for view in views):
        raise typer.Exit(1)
