"""A model whose answer depends on the conversation alone, so that a hosted and a bare run get the same ones."""

from __future__ import annotations

import hashlib
import json
import re

from tests.fakes.policy_endpoint import Answer, Body, message_text


def answer(body: Body) -> Answer | str:
    """One of a few texts, some of them right for a sum or a copy; now and then a call of the first tool."""
    messages = body.get("messages", [])
    said = [[message.get("role"), message.get("content")] for message in messages]
    number = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).digest()[0]
    tools = body.get("tools")
    if tools and number % 3 == 0 and not any(message.get("role") == "tool" for message in messages):
        return Answer("", tool_calls=((tools[0]["function"]["name"], "{}"),))
    asked = message_text(messages[-1].get("content")) if messages else ""
    choices = _choices(asked)
    return choices[number % len(choices)]


def _choices(asked: str) -> list[str]:
    total = sum(map(int, re.findall(r"\d{1,6}", asked)[-2:]))
    boxed = f"So it is <answer>{total}</answer>, that is \\boxed{{{total}}}"
    copied = asked[-2000:]
    return [boxed, "\\boxed{A}", "yes", "A", copied, f"<reversed_text>{copied[::-1]}</reversed_text>", boxed]
