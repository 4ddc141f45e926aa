"""The token view of a rollout: each policy turn's new prompt as text, and its sampled tokens with their training data.

Each token carries a CSS class for each of COLOURINGS, so that the page can switch between them without a request.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from envhub.packaging.calls import Calls
from envhub.packaging.conversation import Message, answer_text, messages_of
from envhub.protocol.evals.rollouts import RolloutRecord, Turn
from envhub.protocol.training.runs import TOKENS_KEY, RolloutTokens, TokenTraining
from pydantic import ValidationError

from hub.training.charts.scales import short
from hub.training.ratio_bounds import RatioBounds

PAGE = 4000  # tokens
MOST_PROMPT = 6000  # characters of one message
MOST_MESSAGES = 40  # messages in one turn's prompt
PROBABILITIES = (0.9, 0.5, 0.2, 0.05)  # p0 is above the first, p4 below the last
RATIOS = (0.5, 0.8, 0.95, 1.05, 1.25, 2.0)  # r0 is below the first, r6 above the last
# Shares of the step's largest advantage: a0 is below the first, then p1..p3 or n1..n3 by sign.
ADVANTAGES = (0.05, 0.35, 0.7)
LEGENDS: dict[str, tuple[tuple[str, str], ...]] = {
    "advantage": (("n3", "negative"), ("n2", ""), ("n1", ""), ("a0", "0"), ("u1", ""), ("u2", ""), ("u3", "positive")),
    "logprob": (
        ("p0", "90 % and more"), ("p1", "50 to 90 %"), ("p2", "20 to 50 %"), ("p3", "5 to 20 %"), ("p4", "below 5 %"),
    ),
    "ratio": (
        ("r0", "below 0.5"), ("r1", "0.8"), ("r2", "0.95"), ("r3", "about 1"), ("r4", "1.05"), ("r5", "1.25"),
        ("r6", "above 2"), ("cut", "cut off"), ("rx", "none: not trained"),
    ),
    "mask": (("m1", "trained"), ("m0", "not trained")),
    "staleness": (("s0", "newest weights"), ("s1", "1 version behind"), ("s2", "2"), ("s3", "3 and more")),
}  # fmt: skip
COLOURINGS = tuple(LEGENDS)


@dataclass(frozen=True)
class Token:
    """One sampled token: (text, whether it is white space made visible) pieces, CSS classes, and a tooltip."""

    pieces: tuple[tuple[str, bool], ...]
    classes: str
    title: str


@dataclass(frozen=True)
class TurnView:
    """One policy turn, or the part of it that is on this page. `extends` is None for the first turn."""

    number: int
    turn: Turn
    prompt: tuple[Message, ...]
    partial: bool  # the prompt has more, which an earlier turn shows
    hidden_messages: int
    prompt_tokens: int
    completion_tokens: int
    extends: bool | None
    tokens: tuple[Token, ...]
    first: int  # position of the first token within the turn
    has_texts: bool
    text: str  # the answer, if its tokens have no texts
    trained: int


@dataclass(frozen=True)
class TokenPage:
    """A page of at most PAGE tokens."""

    turns: tuple[TurnView, ...]
    page: int
    pages: int
    total: int
    available: tuple[str, ...]  # those of COLOURINGS for which data was stored

    @property
    def first(self) -> int:
        """The number of this page's first token, from 1."""
        return (self.page - 1) * PAGE + 1

    @property
    def last(self) -> int:
        """The number of this page's last token."""
        return min(self.total, self.page * PAGE)


@dataclass(frozen=True)
class Scene:
    """The context in which tokens are shown. largest: the step's largest absolute advantage; left_out: why the rollout
    was not trained on; bounds: those of the run's loss."""

    step: int
    largest: float = 0.0
    left_out: str = ""
    bounds: RatioBounds | None = None


def token_page(record: RolloutRecord, scene: Scene, *, page: int = 1) -> TokenPage:
    """Return page `page` (from 1; beyond the end, the last one)."""
    turns = [turn for turn in record.turns if turn.route == "policy"]
    notes = _notes(record, len(turns))
    counts = [len(turn.tokens.completion_ids) if turn.tokens else 0 for turn in turns]
    total = sum(counts)
    pages = max(1, -(-total // PAGE))
    page = min(max(1, page), pages)
    start, end = (page - 1) * PAGE, page * PAGE
    if not scene.largest:
        found = (abs(value) for note in notes for value in note.advantages)
        scene = replace(scene, largest=max(found, default=0.0))
    calls = Calls(record.turns)
    views, before = [], 0
    for number, (turn, note, count) in enumerate(zip(turns, notes, counts, strict=True)):
        first, last = max(0, start - before), min(count, end - before)
        if first < last or (not count and start <= before < end) or (not count and not total):
            previous = turns[number - 1] if number else None
            views.append(_turn_view(number, (turn, previous), calls, note, range(first, max(first, last)), scene))
        before += count
    return TokenPage(
        turns=tuple(views),
        page=page,
        pages=pages,
        total=total,
        available=_available(turns, notes),
    )


def trained_tokens(record: RolloutRecord) -> int:
    """Return how many sampled tokens of the record were trained on."""
    turns = [turn for turn in record.turns if turn.route == "policy"]
    return sum(sum(note.trained) for note in _notes(record, len(turns)))


def _notes(record: RolloutRecord, count: int) -> list[TokenTraining]:
    """Return the training data of each turn; empty if a package or an older worker stored something else."""
    try:
        found = RolloutTokens.model_validate(record.extras.get(TOKENS_KEY) or {}).turns
    except ValidationError:
        found = ()
    return [found[number] if number < len(found) else TokenTraining() for number in range(count)]


def _available(turns: Sequence[Turn], notes: Sequence[TokenTraining]) -> tuple[str, ...]:
    logprobs = any(turn.tokens and turn.tokens.logprobs for turn in turns)
    known = {
        "advantage": any(note.advantages for note in notes),
        "logprob": logprobs,
        "ratio": logprobs and any(note.logprobs or (note.trained and not any(note.trained)) for note in notes),
        "mask": any(note.trained for note in notes),
        "staleness": any(note.versions for note in notes),
    }
    return tuple(name for name in COLOURINGS if known[name])


def _turn_view(
    number: int, pair: tuple[Turn, Turn | None], calls: Calls, note: TokenTraining, shown: range, scene: Scene
) -> TurnView:
    turn, previous = pair
    asked = messages_of(calls.request(turn))
    earlier = None if previous is None else messages_of(calls.request(previous))
    messages = new_messages(asked, earlier) if not shown.start else []
    data = turn.tokens
    count = len(data.completion_ids) if data else 0
    has_texts = count > 0 and len(turn.token_texts) == count
    return TurnView(
        number=number,
        turn=turn,
        prompt=tuple(messages[-MOST_MESSAGES:]),
        partial=previous is not None and len(messages) < len(asked),
        hidden_messages=max(0, len(messages) - MOST_MESSAGES),
        prompt_tokens=len(data.prompt_ids) if data else turn.usage.prompt_tokens,
        completion_tokens=count,
        extends=None if previous is None else extends(turn, previous),
        tokens=tuple(_tokens(turn, note, shown, scene)) if data else (),
        first=shown.start,
        has_texts=has_texts,
        text="" if has_texts or shown.start else answer_text(turn),
        trained=sum(note.trained),
    )


def extends(turn: Turn, previous: Turn) -> bool | None:
    """Return whether the turn's prompt begins with all tokens of the previous turn; None if they were not stored."""
    if turn.tokens is None or previous.tokens is None:
        return None
    before = previous.tokens.prompt_ids + previous.tokens.completion_ids
    return turn.tokens.prompt_ids[: len(before)] == before


def new_messages(asked: list[Message], earlier: list[Message] | None) -> list[Message]:
    """Return what a turn's request adds to the previous turn and its answer; if history was rewritten, everything."""
    if earlier is None:
        return asked
    if asked[: len(earlier)] != earlier:
        return asked
    rest = asked[len(earlier) :]
    return rest[1:] if rest and rest[0].kind == "assistant" else rest


def _tokens(turn: Turn, note: TokenTraining, shown: range, scene: Scene) -> Iterator[Token]:
    assert turn.tokens is not None
    ids, sampler = turn.tokens.completion_ids, turn.tokens.logprobs
    texts = turn.token_texts if len(turn.token_texts) == len(ids) else ()
    for place in shown:
        logprob, learner = _at(sampler, place), _at(note.logprobs, place)
        ratio = math.exp(min(50.0, learner - logprob)) if logprob is not None and learner is not None else None
        advantage, version = _at(note.advantages, place), _at(note.versions, place)
        trained = note.trained[place] if place < len(note.trained) else None
        behind = None if version is None else max(0, scene.step - 1 - int(version))
        cut = ratio is not None and _is_cut(scene.bounds, learner, logprob, advantage)
        classes = (advantage_class(advantage, scene.largest), _probability_class(logprob), _ratio_class(ratio))
        mask = "" if trained is None else f"m{int(trained)}"
        stale = "" if behind is None else f"s{min(3, behind)}"
        said = (
            f"advantage {short(advantage)}" if advantage is not None else "",
            f"p {short(math.exp(min(0.0, logprob)))} (logprob {short(logprob)})" if logprob is not None else "",
            f"ratio {short(ratio)}" + (", cut off" if cut else "") if ratio is not None else "",
            _fate(trained, scene.left_out, ratio is not None),
            f"version {version:.0f}" if version is not None else "",
            f"id {ids[place]}",
        )
        yield Token(
            pieces=tuple(visible(texts[place])) if texts else ((f"#{ids[place]} ", False),),
            classes=" ".join(name for name in (*classes, "cut" if cut else "", mask, stale) if name),
            title=" · ".join(part for part in said if part),
        )


def _is_cut(bounds: RatioBounds | None, learner: float | None, sampler: float | None, advantage: float | None) -> bool:
    if bounds is None or learner is None or sampler is None or advantage is None:
        return False
    return bounds.cut(learner, sampler, advantage)


def _fate(trained: bool | None, left_out: str, has_ratio: bool) -> str:
    """Say in words whether a token was trained on."""
    if trained is None:
        return ""
    if not trained:
        return f"not trained ({left_out})" if left_out else "not trained"
    return "trained" if has_ratio else "trained, the learner's logprob was not kept"


def _at(values: Sequence[float], place: int) -> float | None:
    return values[place] if place < len(values) else None


def advantage_class(value: float | None, largest: float) -> str:
    """Return the class for an advantage's sign and size, relative to the largest of the step."""
    if value is None:
        return ""
    size = sum(abs(value) > part * largest for part in ADVANTAGES) if value and largest else 0
    return f"{'u' if value > 0 else 'n'}{size}" if size else "a0"


def _probability_class(logprob: float | None) -> str:
    if logprob is None:
        return ""
    return f"p{sum(math.exp(min(0.0, logprob)) < least for least in PROBABILITIES)}"


def _ratio_class(ratio: float | None) -> str:
    return "rx" if ratio is None else f"r{sum(ratio > bound for bound in RATIOS)}"


def visible(text: str) -> Iterator[tuple[str, bool]]:
    """Split the text into pieces, replacing white space and control characters by visible signs (True)."""
    plain = ""
    for letter in text or "\u2205":
        sign = _sign(letter)
        if not sign:
            plain += letter
            continue
        if plain:
            yield plain, False
            plain = ""
        yield sign, True
    if plain:
        yield plain, False


def _sign(letter: str) -> str:
    named = {" ": "\u00b7", "\n": "\u21b5\n", "\t": "\u2192\t", "\r": "\u240d", "\u00a0": "\u2423", "\u2205": "\u2205"}
    if letter in named:
        return named[letter]
    return chr(0x2400 + ord(letter)) if ord(letter) < 32 else ""
