"""The model calls of a rollout for its page, with each sampled token shaded by its probability."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from envhub.packaging.calls import Calls
from envhub.packaging.conversation import answer_text, clipped, pretty
from envhub.protocol.evals.rollouts import Turn

from hub.core.numbers import THIN, minus

MOST_TOKENS = 4000  # tokens shown per call
STEPS = ((0.9, "p0"), (0.5, "p1"), (0.2, "p2"), (0.05, "p3"), (0.0, "p4"))  # lowest probability -> shade
LEGEND = (
    ("p0", "90 % and more"),
    ("p1", "50 to 90 %"),
    ("p2", "20 to 50 %"),
    ("p3", "5 to 20 %"),
    ("p4", "below 5 %"),
)


@dataclass(frozen=True)
class Token:
    """One sampled token: its text (or "#id" if the engine gave none), and its tooltip."""

    text: str
    shade: str
    title: str


@dataclass(frozen=True)
class ModelCall:
    """One call as the page shows it."""

    turn: Turn
    text: str
    request: str
    tokens: tuple[Token, ...]
    left_out: int  # tokens beyond MOST_TOKENS
    has_texts: bool


@dataclass(frozen=True)
class CallSummary:
    """One call on a line. `commands`: how many ran in sandboxes before the next call."""

    turn: Turn
    mean_logprob: float | None
    commands: int
    whole: ModelCall | None


def summaries(turns: Sequence[Turn], commands: Mapping[int, int], calls: Calls, *, whole: int) -> list[CallSummary]:
    """Return the calls in order, the first `whole` of them in full. `commands`: numbers of commands by turn index."""
    opened = [model_call(turn, calls) for turn in turns[:whole]]
    return [
        CallSummary(turn, _mean_logprob(turn), commands.get(turn.index, 0), opened[place] if place < whole else None)
        for place, turn in enumerate(turns)
    ]


def _mean_logprob(turn: Turn) -> float | None:
    logprobs = turn.tokens.logprobs if turn.tokens else ()
    return math.fsum(logprobs) / len(logprobs) if logprobs else None


def model_call(turn: Turn, calls: Calls) -> ModelCall:
    """Return one call in full, as shown when it is unfolded."""
    logprobs = turn.tokens.logprobs if turn.tokens else ()
    count = len(turn.tokens.completion_ids) if turn.tokens else 0
    return ModelCall(
        turn=turn,
        text=clipped(answer_text(turn)),
        request=pretty(calls.request(turn)),
        tokens=tuple(_tokens(turn)),
        left_out=max(0, count - MOST_TOKENS) if logprobs else 0,
        has_texts=_has_texts(turn),
    )


def _has_texts(turn: Turn) -> bool:
    return turn.tokens is not None and len(turn.token_texts) == len(turn.tokens.completion_ids) > 0


def _tokens(turn: Turn) -> Iterator[Token]:
    data = turn.tokens
    if data is None or not data.logprobs:
        return
    texts = turn.token_texts if _has_texts(turn) else [f"#{token} " for token in data.completion_ids]
    rows = zip(texts[:MOST_TOKENS], data.completion_ids, data.logprobs, strict=False)
    for text, token, logprob in rows:
        probability = math.exp(min(0.0, logprob))
        yield Token(
            text=text,
            shade=next(name for least, name in STEPS if probability >= least),
            title=f"{_percent(probability)}, logprob {minus(f'{logprob:.3f}')}, id {token}",
        )


def _percent(probability: float) -> str:
    shown = f"{100 * probability:.1f}" if probability >= 0.001 else minus(f"{100 * probability:.2g}")
    return f"{shown}{THIN}%"
