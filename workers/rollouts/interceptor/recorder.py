"""Records the turns of one rollout (or of a group that the library drives through one client) and enforces its caps."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import uuid4

from envhub.client.telemetry.tracing import NO_SPAN
from envhub.protocol.base import JsonObject
from envhub.protocol.evals.replays import Replayed
from envhub.protocol.evals.rollouts import Turn, TurnAgent, Usage

from workers.rollouts.interceptor.answers import Answer, Upstream, without_added
from workers.rollouts.interceptor.refusals import BudgetSpent, LimitReached
from workers.rollouts.interceptor.replaying import Replaying
from workers.rollouts.interceptor.sharing import Sharing

TRANSPORT_FIELDS = frozenset({"stream", "stream_options", "user", "api_key"})


@dataclass(frozen=True)
class Budget:
    """What the user grants one rollout. The call that crosses a limit is answered; the next one ends it as truncated.

    Tokens are counted as in the current generation: input is what is new to the conversation, total is input plus
    output.
    """

    turns: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None

    def times(self, number: int) -> Budget:
        """Return the budget for `number` rollouts together."""
        limits = (self.turns, self.input_tokens, self.output_tokens, self.total_tokens)
        return Budget(*(limit and limit * number for limit in limits))


@dataclass(frozen=True)
class Caps:
    """What one rollout, or one run, may use. Calls beyond `concurrency` wait; crossing another cap fails the rollout.

    `tokens` counts everything that calls are charged for, so a conversation's beginning counts again with each turn.
    The call that crosses a cap is still answered.
    """

    calls: int = 200
    tokens: int = 2_000_000
    concurrency: int = 16
    bytes: int = 64 * 1024**2  # of recorded JSON; what calls share counts once
    budget: Budget = Budget()

    def times(self, number: int) -> Caps:
        """Return the caps for `number` rollouts together."""
        return Caps(
            self.calls * number,
            self.tokens * number,
            self.concurrency * number,
            self.bytes * number,
            self.budget.times(number),
        )


@dataclass
class Meter:
    """Counts use against caps."""

    what: str  # "this rollout" or "this run", for messages
    caps: Caps
    calls: int = 0
    tokens: int = 0
    bytes: int = 0
    turns: int = 0  # answered calls
    input_tokens: int = 0
    output_tokens: int = 0
    budget_spent: bool = False  # a call was refused because the budget is spent
    gate: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self.gate = asyncio.Semaphore(self.caps.concurrency)
        self._context = 0  # tokens of the conversation after the last call

    def enter(self) -> None:
        """Count the start of a call. Raises LimitReached, BudgetSpent."""
        budget = self.caps.budget
        for name, used, granted in (
            ("turns", self.turns, budget.turns),
            ("input tokens", self.input_tokens, budget.input_tokens),
            ("output tokens", self.output_tokens, budget.output_tokens),
            ("tokens", self.input_tokens + self.output_tokens, budget.total_tokens),
        ):
            if granted is not None and used >= granted:
                self.budget_spent = True
                raise BudgetSpent(f"{self.what} has used its {granted} {name}")
        for name, used, cap in (
            ("model calls", self.calls, self.caps.calls),
            ("tokens", self.tokens, self.caps.tokens),
        ):
            if used >= cap:
                raise LimitReached(f"{self.what} has used its {cap} {name}")
        self.check_room()
        self.calls += 1

    def check_room(self) -> None:
        """Raise LimitReached if no more may be recorded."""
        if self.bytes >= self.caps.bytes:
            raise LimitReached(f"{self.what} has used its {self.caps.bytes} bytes of recorded calls")

    def spend(self, usage: Usage, size: int, *, answered: bool = True) -> None:
        """Count what a call used; an answered call is a turn even if the endpoint reports no tokens."""
        self.turns += answered
        if context := usage.prompt_tokens + usage.completion_tokens:
            self.tokens += context
            self.input_tokens += max(0, usage.prompt_tokens - self._context)
            self.output_tokens += usage.completion_tokens
            self._context = context
        self.bytes += size


class Recorder:
    """Collects the turns made under one key; `turns` is complete once the runner has reported the rollout.

    `name` is ours ("<group id>.<rollout index>", or "<group id>.g" for a group behind one client). The key is part
    of the URL and random, so that knowing one rollout's URL does not help to guess another's.
    """

    def __init__(
        self,
        name: str,
        caps: Caps,
        *,
        key: str = "",
        route: str = "policy",
        replaying: Replaying | None = None,
        upstream: Upstream | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.name = name
        self.replaying = replaying or Replaying(())
        self.upstream = upstream  # replaces the policy
        self.key = key or secrets.token_urlsafe(16)
        self.turns: list[Turn] = []
        self._meter = Meter("this rollout" if route == "policy" else "this run's judging", caps)
        self._clock = clock
        self._started = clock()
        self.route = route
        self.span = NO_SPAN  # parent of its calls' spans
        self._ids: set[str] = set()
        self._sharing = Sharing()

    @property
    def calls(self) -> int:
        """The number of calls started."""
        return self._meter.calls

    @property
    def calls_spent(self) -> bool:
        """Whether the caps allow no further call."""
        return self._meter.calls >= self._meter.caps.calls

    @property
    def budget_spent(self) -> bool:
        """Whether a call was refused because the rollout's budget is spent."""
        return self._meter.budget_spent

    @asynccontextmanager
    async def call(self) -> AsyncIterator[float]:
        """Make one call within the caps; yields its start time. Raises LimitReached, BudgetSpent."""
        self._meter.enter()
        async with self._meter.gate:
            yield self._clock()

    @property
    def size(self) -> int:
        """The approximate size of the turns in bytes."""
        return self._meter.bytes

    def check_room(self) -> None:
        """Raise LimitReached if no more turns may be added."""
        self._meter.check_room()

    def claim_id(self, given: object) -> str:
        """Return the response id to use: the endpoint's own, unless it is missing or already used."""
        identity = given if isinstance(given, str) and given and given not in self._ids else f"hub-{uuid4().hex}"
        self._ids.add(identity)
        return identity

    def record(
        self,
        protocol: str,
        model: str,
        request: JsonObject,
        answer: Answer,
        *,
        shown: JsonObject,
        began: float,
        size: int,
        replayed: Replayed | None = None,
        agent: TurnAgent | None = None,
    ) -> Turn:
        """Add a turn for an answer or a refusal.

        `shown` is the answer in the box's protocol; `size` is that of request and answer together.
        """
        asked, saved = self._sharing.once(clean(request))
        return self._add(
            Turn(
                index=len(self.turns),
                route=self.route,
                protocol=protocol,
                response_id=str(shown.get("id") or ""),
                model=model,
                request=asked,
                response=without_added(shown),
                finish_reason=answer.finish_reason,
                status=answer.status,
                error="" if answer.ok else error_message(answer.body),
                tokens=answer.tokens,
                token_texts=answer.token_texts,
                usage=answer.usage,
                policy_version=answer.policy_version,
                started_s=began - self._started,
                latency_s=self._clock() - began,
                retries=answer.retries,
                trainable=self.route == "policy" and answer.ok and replayed is None,
                replayed=replayed,
                agent=agent,
            ),
            size - saved,
        )

    def record_failure(
        self,
        protocol: str,
        model: str,
        request: JsonObject,
        message: str,
        *,
        status: int,
        retries: int,
        began: float,
        size: int,
    ) -> Turn:
        """Add a turn for a call without an answer; `size` is the request's."""
        asked, saved = self._sharing.once(clean(request))
        turn = Turn(
            index=len(self.turns),
            route=self.route,
            protocol=protocol,
            model=model,
            request=asked,
            response={},
            status=status,
            error=message,
            started_s=began - self._started,
            latency_s=self._clock() - began,
            retries=retries,
            trainable=False,
        )
        return self._add(turn, size - saved + len(message))

    def add_judge_turns(self, judge: Recorder) -> None:
        """Add the turns of a judge called on behalf of this rollout; they count for room but not for tokens."""
        later = judge._started - self._started
        for turn in judge.turns:
            place = {"index": len(self.turns), "started_s": later + turn.started_s}
            self.turns.append(turn.model_copy(update=place))
        self._meter.spend(Usage(), judge.size, answered=False)

    def _add(self, turn: Turn, size: int) -> Turn:
        self.turns.append(turn)
        self._meter.spend(turn.usage, max(0, size), answered=not turn.error)
        return turn


def total_usage(turns: list[Turn]) -> Usage:
    """Sum the token counts of turns."""
    return Usage(
        prompt_tokens=sum(turn.usage.prompt_tokens for turn in turns),
        completion_tokens=sum(turn.usage.completion_tokens for turn in turns),
    )


def clean(request: JsonObject) -> JsonObject:
    """Return a request without the fields that concern its transport."""
    return {key: value for key, value in request.items() if key not in TRANSPORT_FIELDS}


def error_message(body: JsonObject) -> str:
    """Return the text of a refusal."""
    error = body.get("error")
    return str(error.get("message", error) if isinstance(error, dict) else error or body)[:2000]
