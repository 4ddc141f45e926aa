"""One rollout for people: its outcome, then the conversation. Used by `hub eval rollouts` and `hub train rollouts`."""

from __future__ import annotations

from typing import Any

from envhub.cli.session import Session, printable
from envhub.protocol.rollouts import RolloutRecord


def print_rollout(session: Session, record: RolloutRecord) -> None:
    """Fields, then every message, to standard output."""
    failure = record.failure
    session.fields({"outcome": record.outcome, "reward": record.reward, "stopped by": record.stop_condition,
                    "metrics": ", ".join(f"{name} {value:.4g}" for name, value in record.metrics.items()),
                    "failure": f"{failure.kind}: {failure.type}: {failure.message}" if failure else ""})  # fmt: skip
    for part in (record.prompt, record.completion):
        for message in part if isinstance(part, list) else [part]:
            session.out.print(_role(message), style="bold", markup=False)
            session.write(_text(message) + "\n")


def _role(message: Any) -> str:
    return printable(str(message.get("role", ""))) if isinstance(message, dict) else "text"


def _text(message: Any) -> str:
    content = message.get("content") if isinstance(message, dict) else message
    calls = message.get("tool_calls") if isinstance(message, dict) else None
    return "\n".join(str(part) for part in (content, calls) if part)
