"""Makes the one-line texts that lists show of a rollout: the start of the question, the end of the answer, the target.

The end of an answer is shown because models reason first. The texts are for display only; whole ones stay in the
rollout.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from envhub.packaging.clean_text import clean_text
from envhub.packaging.conversation import Message, last_message, openings
from envhub.protocol.base import Json
from envhub.protocol.evals.rollouts import RolloutRecord

SHOWN = 160  # characters
READ = 8 * SHOWN  # characters read of a text before its white space is folded
TARGET = "answer"  # the name of the target in an example's row
ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


class Snippets(NamedTuple):
    """Texts of at most SHOWN characters each; "" if there is nothing to show."""

    asked: str
    answered: str
    target: str


def snippets_of(record: RolloutRecord) -> Snippets:
    """Make the snippets from the last user message of the prompt and the last message that the model wrote."""
    prompt, completion = openings(record)
    asked = last_message(prompt, "user") or last_message(prompt, "user", any_role=True)
    answered = last_message(completion, "assistant")
    return Snippets(_head(asked.text if asked else ""), _tail(_said(answered)), _head(target_text(record)))


def _said(message: Message | None) -> str:
    if message is None:
        return ""
    calls = ", ".join(f"{call.name}({call.only_argument})" for call in message.calls[:3])
    return message.text if message.text.strip() else calls


def target_text(record: RolloutRecord) -> str:
    """Return the data set's answer as text; "" if there is none."""
    found: Json = record.task.get(TARGET)
    value = record.library.get(TARGET) if found is None else found
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False, default=str)


def _head(text: str) -> str:
    line = " ".join(clean_text(text[:READ]).split())
    return line if len(line) <= SHOWN else line[: SHOWN - 1].rstrip() + ELLIPSIS


def _tail(text: str) -> str:
    line = " ".join(clean_text(text[-READ:]).split())
    cut = len(text) > READ or len(line) > SHOWN
    return ELLIPSIS + line[-(SHOWN - 1) :].lstrip() if cut else line
