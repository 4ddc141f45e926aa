"""One rollout for people: its outcome, then the conversation. Used by `hub eval rollouts` and `hub train rollouts`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

from envhub.cli.terminal.session import Session, printable
from envhub.packaging.conversation import Message, ToolCall, conversation
from envhub.protocol.rollouts import RolloutRecord


def print_rollout(session: Session, record: RolloutRecord) -> None:
    """Fields, then every message, to standard output; through the pager where a terminal is too small for it."""
    messages = [(message, _text(message)) for message in conversation(record)]
    lines = sum(text.count("\n") + 2 for _, text in messages)
    out = session.out
    with out.pager(styles=True) if out.is_terminal and lines > out.height else nullcontext():
        session.fields(_outcome(record))
        for number, (message, text) in enumerate(messages):
            out.print(f"{number}  {printable(message.role)}", style="bold", markup=False, highlight=False)
            if out.is_terminal:
                out.print(printable(text), markup=False, highlight=False, soft_wrap=True)
            else:
                session.write(text + "\n")


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
