"""A model's answer as every part of the interceptor passes it on, and what is read from an endpoint's JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Protocol

from envhub.protocol.base import JsonObject
from envhub.protocol.evals.rollouts import TokenData, Usage

ADDED_FIELDS = ("prompt_token_ids", "token_ids", "logprobs", "prompt_logprobs", "kv_transfer_params")
VOCABULARY = 300_000  # ids below it: larger than those of today's models
NO_USAGE = Usage()
_KNOWN: dict[int, int] = {}


class Route(StrEnum):
    """The calls that an upstream understands."""

    CHAT = "chat"
    COMPLETIONS = "completions"
    MESSAGES = "messages"
    TOKENIZE = "tokenize"


@dataclass(frozen=True)
class Answer:
    """One answer, in the protocol of its call. From status 400 on it is the model's own refusal (a policy fault)."""

    body: JsonObject
    status: int = 200
    tokens: TokenData | None = None
    token_texts: tuple[str, ...] = ()  # of the sampled tokens, where the endpoint spelled each of them
    usage: Usage = NO_USAGE
    finish_reason: str | None = None
    retries: int = 0
    policy_version: int | None = None  # of the weights that answered, where they change during the run

    @property
    def ok(self) -> bool:
        """Whether the model answered."""
        return self.status < 400

    def with_body(self, body: JsonObject) -> Answer:
        """The same answer in another protocol."""
        return replace(self, body=body)


class Upstream(Protocol):
    """Where calls go: a real endpoint with its variants, or a script. `model` is the name that records show."""

    model: str

    async def send(self, route: Route, body: JsonObject) -> Answer:
        """Raises UpstreamFailed."""
        ...


class UpstreamFailed(Exception):
    """No answer could be had: infrastructure, not the model's fault. The message is safe to show to a user."""

    def __init__(self, message: str, *, retries: int = 0) -> None:
        super().__init__(message)
        self.retries = retries


class Garbage(ValueError):
    """The endpoint's answer is not what its protocol says."""


def read_chat(body: Any) -> Answer:
    """An endpoint's chat completion. Raises Garbage."""
    choice = first_choice(body)
    if not isinstance(choice.get("message"), dict):
        raise Garbage("a choice without a message")
    content = (choice.get("logprobs") or {}).get("content") or []
    logprobs = [entry.get("logprob") for entry in content if isinstance(entry, dict)]
    return Answer(
        body=body,
        tokens=token_data(body.get("prompt_token_ids") or choice.get("prompt_token_ids"), choice, logprobs, body),
        token_texts=token_texts([entry.get("token") for entry in content if isinstance(entry, dict)]),
        usage=read_usage(body, ("prompt_tokens",), "completion_tokens"),
        finish_reason=choice.get("finish_reason"),
    )


def read_completion(body: Any) -> Answer:
    """An endpoint's text completion. Raises Garbage."""
    choice = first_choice(body)
    if not isinstance(choice.get("text"), str):
        raise Garbage("a choice without text")
    spelled = choice.get("logprobs") or {}
    logprobs = spelled.get("token_logprobs") or []
    return Answer(
        body=body,
        tokens=token_data(choice.get("prompt_token_ids") or body.get("prompt_token_ids"), choice, logprobs, body),
        token_texts=token_texts(spelled.get("tokens") or []),
        usage=read_usage(body, ("prompt_tokens",), "completion_tokens"),
        finish_reason=choice.get("finish_reason"),
    )


def read_message(body: Any) -> Answer:
    """An Anthropic message. Raises Garbage."""
    if not isinstance(body, dict) or not isinstance(body.get("content"), list):
        raise Garbage("a message without content")
    return Answer(body=body, usage=read_message_usage(body), finish_reason=body.get("stop_reason"))


def read_message_usage(body: JsonObject) -> Usage:
    """An Anthropic message's token counts: those of the prompt that the cache read or wrote are counted apart."""
    return read_usage(body, ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"), "output_tokens")


def read_tokenized(body: Any) -> Answer:
    """vLLM's answer to /tokenize. Raises Garbage."""
    if not isinstance(body, dict) or not isinstance(body.get("tokens"), list):
        raise Garbage("no tokens")
    return Answer(body=body)


def first_choice(body: Any) -> dict[str, Any]:
    """choices[0]. Raises Garbage."""
    choices = body.get("choices") if isinstance(body, dict) else None
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise Garbage("an answer without choices")
    return choices[0]


def token_data(prompt: Any, choice: JsonObject, logprobs: list[Any], body: JsonObject) -> TokenData | None:
    """Token ids and logprobs, only where they are whole: one choice, ids for both sides, a finite logprob for each."""
    ids: Any = choice.get("token_ids")
    if len(body["choices"]) != 1 or not is_ids(prompt) or not is_ids(ids):
        return None
    whole = len(logprobs) == len(ids) and all(isinstance(p, int | float) and math.isfinite(p) for p in logprobs)
    return TokenData(
        prompt_ids=_once(prompt), completion_ids=_once(ids), logprobs=tuple(map(float, logprobs)) if whole else ()
    )


def _once(ids: list[int]) -> tuple[int, ...]:
    """The ids, each number kept once in this process: 8 bytes a token instead of 40. Each turn repeats its prompt."""
    return tuple([_KNOWN.setdefault(one, one) if 0 <= one < VOCABULARY else one for one in ids])


def token_texts(texts: Any) -> tuple[str, ...]:
    """What the endpoint calls each sampled token, for people; nothing when one lacks its text."""
    return tuple(texts) if isinstance(texts, list) and all(isinstance(text, str) for text in texts) else ()


def is_ids(value: Any) -> bool:
    """Whether it is a list of token ids."""
    return isinstance(value, list) and all(type(item) is int for item in value)


def read_usage(body: Mapping[str, Any], prompt: Iterable[str], completion: str) -> Usage:
    """Token counts, the prompt's as the sum of its fields; zero where the endpoint gives none."""
    usage = body.get("usage")
    if not isinstance(usage, dict):
        return Usage()
    return Usage(
        prompt_tokens=sum(_count(usage.get(field)) for field in prompt), completion_tokens=_count(usage.get(completion))
    )


def _count(value: Any) -> int:
    return value if type(value) is int and value >= 0 else 0


def without_added(body: JsonObject) -> JsonObject:
    """A chat or text completion without ids and logprobs: for records (kept apart) and boxes that did not ask."""
    slim = {key: value for key, value in body.items() if key not in ADDED_FIELDS}
    if isinstance(slim.get("choices"), list):
        slim["choices"] = [
            {key: value for key, value in choice.items() if key not in ADDED_FIELDS}
            for choice in slim["choices"]
            if isinstance(choice, dict)
        ]
    return slim


def is_asked(request: JsonObject, key: str, *, counted: bool) -> bool:
    """Whether the request itself asks for it; for the logprobs of text completions, which are `counted`, 0 does."""
    value = request.get(key)
    return bool(value) or (counted and value is not None and value is not False)
