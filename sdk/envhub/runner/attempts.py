"""One try at one rollout, and context variables that tell code deep inside the library whose try it works for."""

from __future__ import annotations

import time
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from .failures import Failure
from .steps import Step


@dataclass
class RewardError:
    """An exception raised by a reward function or metric, which the library may have swallowed."""

    name: str
    error: BaseException


@dataclass(eq=False)
class Attempt:
    """What is known of one try while it runs. Adapters fill it; records.py reads it."""

    index: int  # index of the rollout within the example
    sampling: dict[str, Any]
    client: Any = None
    base_url: str = ""
    env: Any = None  # the environment that runs it; for an EnvGroup, the member
    state: Any = None  # the library's own state, once it exists
    error: BaseException | None = None  # an exception that escaped, or that the library recorded
    error_in_scoring: bool = False
    reward_errors: list[RewardError] = field(default_factory=list)
    scoring: bool = False
    scoring_function: str = ""
    started: float = field(default_factory=time.monotonic)
    deadline_s: float | None = None
    given: tuple[tuple[bool, bool], ...] = ()  # from steps.given, before the library fills in the rest


@dataclass
class Result:
    """A finished try in a form independent of the library's generation."""

    failure: Failure | None = None
    reward: float | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)
    advantage: float | None = None
    truncated: bool = False
    stop_condition: str | None = None
    prompt: Any = None
    completion: Any = None
    usage: tuple[int, int] = (0, 0)
    generation_s: float = 0.0
    scoring_s: float = 0.0
    extras: dict[str, Any] = field(default_factory=dict)
    library: Any = None
    response_ids: tuple[str, ...] = ()
    steps: tuple[Step, ...] = ()  # with their own rewards
    agents: tuple[dict[str, Any], ...] = ()  # envhub.protocol.runner.AgentPart, if there are several


@dataclass
class Scope:
    """The tries of one library call: a single one, or a group's."""

    attempts: list[Attempt]
    taken: int = 0

    @property
    def is_group(self) -> bool:
        """Whether the library drives several rollouts in this call."""
        return len(self.attempts) > 1

    def take(self) -> Attempt | None:
        """Return the next try, in the library's starting order; None for rollouts of the environment's own."""
        if self.taken >= len(self.attempts):
            return None
        self.taken += 1
        return self.attempts[self.taken - 1]

    def of_state(self, state: Any) -> Attempt | None:
        """Return the try to which a library state belongs."""
        found = next((attempt for attempt in self.attempts if attempt.state is state), None)
        return found or (self.attempts[0] if len(self.attempts) == 1 else None)


SCOPE: ContextVar[Scope | None] = ContextVar("envhub_scope", default=None)
CURRENT: ContextVar[Attempt | None] = ContextVar("envhub_attempt", default=None)
