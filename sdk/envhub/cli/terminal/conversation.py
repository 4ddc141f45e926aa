"""One rollout for people: its outcome, then the conversation. Used by `hub eval rollouts` and `hub train rollouts`."""

from __future__ import annotations

from collections.abc import Iterator

from envhub.cli.terminal.session import Session, printable
from envhub.packaging.conversation import Message, ToolCall, conversation
from envhub.protocol.evals.rollouts import RolloutRecord


def print_rollout(session: Session, record: RolloutRecord) -> None:
    """Fields, then every message, to standard output; `Session.show` puts it through the pager."""
    out = session.out
    session.fields(_outcome(record))
    for number, message in enumerate(conversation(record)):
        out.print(f"{number}  {printable(message.role)}", style="bold", markup=False, highlight=False)
        if out.is_terminal:
            out.print(printable(_text(message)), markup=False, highlight=False, soft_wrap=True)
        else:
            session.write(_text(message) + "\n")


def _outcome(record: RolloutRecord) -> dict[str, object]:
    failure = record.failure
    return {
        "outcome": record.outcome,
        "reward": record.reward,
        "stopped by": record.stop_condition,
        "metrics": ", ".join(f"{name} {value:.4g}" for name, value in record.metrics.items()),
        "failure": f"{failure.kind}: {failure.type}: {failure.message}" if failure else "",
    }


def _text(message: Message) -> str:
    return "\n".join(part for part in _parts(message) if part)


def _parts(message: Message) -> Iterator[str]:
    if message.reasoning:
        yield f"(reasoning)\n{message.reasoning}\n(end of reasoning)"
    yield message.text
    yield from map(_call, message.calls)


def _call(call: ToolCall) -> str:
    apart = "\n" if "\n" in call.only_argument else ": "
    return f"-> {call.name}{apart}{call.only_argument}"
