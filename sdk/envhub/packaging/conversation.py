"""Converts a rollout's messages for display. Whatever a package stored is shown, unknown shapes as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from envhub.packaging.calls import Calls
from envhub.protocol.base import Json, JsonObject
from envhub.protocol.evals.rollouts import RolloutRecord, Turn, TurnAgent

LONGEST = 100_000  # characters shown of one text
MOST = 1000  # messages shown for one call
# the types that are shown; browsers run nothing in them
PICTURES = ("image/png", "image/jpeg", "image/gif", "image/webp")
_DATA_URL = re.compile(r"data:(image/[a-z]+);base64,", re.IGNORECASE)
ROLES = frozenset({"system", "user", "assistant", "tool"})


@dataclass(frozen=True)
class ToolCall:
    """A tool call by the model."""

    name: str
    arguments: str
    id: str
    only_argument: str = ""  # the value if there is only one argument, else all arguments


@dataclass(frozen=True)
class Picture:
    """A picture in a message: its media type and its bytes in base64."""

    kind: str
    content: str


@dataclass(frozen=True)
class Message:
    """A message. `role` is as stored; `kind` is one of ROLES or "other" and selects the style."""

    role: str
    kind: str
    text: str
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    answers: str = ""  # id of the tool call that a tool message answers
    sampled: bool = False  # written by the model in this rollout
    pictures: tuple[Picture, ...] = ()


def conversation(record: RolloutRecord) -> list[Message]:
    """Return prompt and completion, or the last model call's messages if the record kept neither."""
    prompt, completion = openings(record)
    return [*_messages(prompt, "user", sampled=False), *_messages(completion, "assistant", sampled=True)]


def agents_of(record: RolloutRecord) -> list[TurnAgent]:
    """Return the parts of a rollout with several agents, in the order of their first calls; none if there is one."""
    found = {turn.agent.id: turn.agent for turn in record.turns if turn.agent is not None}
    return list(found.values()) if len(found) > 1 else []


def conversation_of(record: RolloutRecord, agent: str) -> list[Message]:
    """Return what an agent's last answered call sent and got, or its last one; `agent` is the id of its part."""
    own = [turn for turn in record.turns if turn.agent is not None and turn.agent.id == agent]
    turns = [turn for turn in own if turn.status == 200] or own
    if not turns:
        return []
    asked, answered = _asked(Calls(record.turns).request(turns[-1])), _answered(turns[-1])
    return [*_messages(asked, "user", sampled=isinstance(asked, list)), *_messages(answered, "assistant", sampled=True)]


def results_of(messages: Sequence[Message]) -> dict[int, dict[int, int]]:
    """Return which message answers which tool call: {number of the caller: {place of the call: number of its result}}.

    A tool message belongs to the last call before it with its id, if no other has answered that one.
    """
    results: dict[int, dict[int, int]] = {}
    open_calls: dict[str, tuple[int, int]] = {}
    for number, message in enumerate(messages):
        if message.kind == "tool" and message.answers in open_calls:
            caller, place = open_calls.pop(message.answers)
            results.setdefault(caller, {})[place] = number
        open_calls |= {call.id: (number, place) for place, call in enumerate(message.calls) if call.id}
    return results


def openings(record: RolloutRecord) -> tuple[Json, Json]:
    """Return the stored prompt and completion, or those of the last model call."""
    policy = [turn for turn in record.turns if turn.route == "policy"]
    if not record.prompt and not record.completion and policy:
        return _asked(Calls(record.turns).request(policy[-1])), _answered(policy[-1])
    return record.prompt, record.completion


def last_message(stored: Json, role: str, *, any_role: bool = False) -> Message | None:
    """Return the last message of `role` that has text or tool calls, with its text unclipped.

    A stored plain text counts as a message of `role`.
    """
    for item in reversed(stored if isinstance(stored, list) else [stored]):
        for message in _messages([item] if item else None, role, sampled=False):
            if (any_role or message.kind == role) and (message.text.strip() or message.calls):
                return replace(message, text=_text(item.get("content") if isinstance(item, dict) else item))
    return None


def messages_of(request: JsonObject) -> list[Message]:
    """Return the messages that one model call sent."""
    return list(_messages(_asked(request), "user", sampled=False))[:MOST]


def answer_text(turn: Turn) -> str:
    """Return the text that the model wrote in one call."""
    return "\n".join(message.text for message in _messages(_answered(turn), "assistant", sampled=True))


def pretty(value: Json) -> str:
    """Format JSON for reading, clipped if it is very long."""
    return clipped(json.dumps(value, indent=2, ensure_ascii=False, default=str))


def clipped(text: str) -> str:
    """Cut a text to LONGEST characters and state how many are left out."""
    if len(text) <= LONGEST:
        return text
    return f"{text[:LONGEST]}\n… {len(text) - LONGEST:,} more characters: see the raw JSON"


def _asked(request: JsonObject) -> Json:
    return request.get("messages") or request.get("prompt") or request.get("input")


def _answered(turn: Turn) -> Json:
    choices = turn.response.get("choices")
    if isinstance(choices, list) and choices and isinstance(choices[0], dict):
        message = choices[0].get("message")
        return [message] if isinstance(message, dict) else choices[0].get("text")
    if turn.response.get("content") or turn.response.get("output"):
        return [{"role": "assistant", "content": turn.response.get("content") or turn.response["output"]}]
    return None


def _messages(value: Json, default_role: str, *, sampled: bool) -> Iterator[Message]:
    if value is None or value == "" or value == []:
        return
    for item in value if isinstance(value, list) else [value]:
        if isinstance(item, dict) and ("role" in item or "content" in item):
            yield _message(item, default_role, sampled=sampled)
        else:
            text = item if isinstance(item, str) else pretty(item)
            yield Message(default_role, default_role, clipped(text), sampled=sampled)


def _message(item: dict[str, Json], default_role: str, *, sampled: bool) -> Message:
    role = str(item.get("role") or default_role)[:40]
    calls = item.get("tool_calls")
    return Message(
        role=role,
        kind=role if role in ROLES else "other",
        text=clipped(_text(item.get("content"))),
        reasoning=clipped(_text(item.get("reasoning_content") or item.get("reasoning"))),
        calls=tuple(_call(call) for call in calls[:100]) if isinstance(calls, list) else (),
        answers=str(item.get("tool_call_id") or "")[:200],
        sampled=sampled and role == "assistant",
        pictures=tuple(_pictures(item.get("content"))),
    )


def _text(content: Json) -> str:
    if content is None:
        return ""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(_part(part) for part in content)
    return pretty(content)


def _part(part: Json) -> str:
    if isinstance(part, dict) and isinstance(part.get("text"), str):
        return str(part["text"])
    if picture_of(part) is not None:
        return "[picture]"
    return part if isinstance(part, str) else pretty(part)


def _pictures(content: Json) -> Iterator[Picture]:
    for part in content if isinstance(content, list) else ():
        if (picture := picture_of(part)) is not None:
            yield picture


def picture_of(part: Json) -> Picture | None:
    """Return the picture in a message part (chat, responses or messages protocol) if its type can be shown."""
    if not isinstance(part, dict):
        return None
    source, address = part.get("source"), part.get("image_url")
    if isinstance(source, dict) and source.get("type") == "base64":
        kind, content = source.get("media_type"), source.get("data")
    else:
        url = address.get("url") if isinstance(address, dict) else address
        found = _DATA_URL.match(url) if isinstance(url, str) else None
        kind, content = (found.group(1).lower(), url[found.end() :]) if found and isinstance(url, str) else ("", None)
    return Picture(str(kind), content) if kind in PICTURES and isinstance(content, str) else None


def _call(call: Json) -> ToolCall:
    parsed = _parsed(call)  # some verifiers releases keep each call as JSON text
    if not isinstance(parsed, dict):
        return ToolCall(name="", arguments=pretty(parsed), id="")
    inner = parsed.get("function")
    function: dict[str, Json] = inner if isinstance(inner, dict) else parsed
    arguments = _parsed(function.get("arguments"))
    text = arguments if isinstance(arguments, str) else pretty(arguments)
    return ToolCall(
        name=str(function.get("name") or "")[:200],
        arguments=clipped(text),
        id=str(parsed.get("id") or "")[:200],
        only_argument=_only(arguments, text),
    )


def _only(arguments: Json, text: str) -> str:
    if isinstance(arguments, dict) and len(arguments) == 1:
        (value,) = arguments.values()
        return clipped(value if isinstance(value, str) else pretty(value))
    return clipped(text)


def _parsed(value: Json) -> Json:
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value
