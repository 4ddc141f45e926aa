"""A training run for people: what it is, how far it is, how it does, what came of it."""

from __future__ import annotations

from envhub.cli.terminal.session import Session
from envhub.cli.training.check import amount, mode_line
from envhub.cli.training.follow import step_line
from envhub.protocol.training.command import evaluation_flags
from envhub.protocol.training.runs import HealthLevel, TrainingRunView


def page(session: Session, view: TrainingRunView) -> str:
    """Where people look at it."""
    return f"{session.hub.url}/training/{view.id}"


def print_training(session: Session, view: TrainingRunView) -> None:
    """Everything in one screen, to standard output."""
    failure = view.failure
    session.fields({
        "training run": view.id, "name": view.name, "state": _state(view), "model": view.model,
        "mode": mode_line(view.config), "environments": view.environments, "step": steps_line(view),
        "placed": view.placement,
        "newest": step_line(view.latest, view.max_steps) if view.latest else "", "best reward": view.best_reward,
        "created": view.created_at, "finished": view.finished_at,
        "failure": f"{failure.message} ({failure.kind}, {failure.code})" if failure else "",
        "hint": failure.hint if failure else "", "page": page(session, view),
        "trace": view.trace_id,
    })  # fmt: skip
    if view.evaluations:
        rows = [(item.label, item.split, item.step, item.reward_mean, item.reward_std_error, item.rollouts, item.failed)
                for item in view.evaluations]  # fmt: skip
        session.table(("evaluation", "split", "step", "reward", "std error", "rollouts", "failed"), rows)
    for badge in view.health:
        if badge.level is not HealthLevel.OK:
            session.note(f"{badge.name}: {badge.message}. {badge.advice}")
    if view.adapters:
        made = [(f"{item.owner}/{item.name}", item.step, item.mode, amount(item.size), item.reward_mean)
                for item in view.adapters]  # fmt: skip
        session.table(("model", "step", "mode", "size", "reward"), made)
        best = view.adapters[0]
        command = f"hub eval run {view.environments[0]} -m {best.owner}/{best.name} {evaluation_flags(view.config)}"
        session.note(f"next: {command.rstrip()}")


def steps_line(view: TrainingRunView) -> str:
    """How many of its steps are done, and why a run that has ended well has fewer."""
    why = ", then nothing was left to learn" if view.mastered else ""
    return f"{view.step}/{view.max_steps}{why}"


def _state(view: TrainingRunView) -> str:
    return f"{view.state} ({view.waiting_for})" if view.waiting_for else str(view.state)
