"""The normalised rollout record: one attempt at one example with its turns, the same for every library generation."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from envhub.protocol.base import Json, Response, StoredObject, Whole
from envhub.protocol.evals.replays import Replayed
from envhub.protocol.runs import FailureKind


class Outcome(StrEnum):
    """The outcome of a rollout. Only `ok` and `truncated` rollouts have a reward."""

    OK = "ok"
    TRUNCATED = "truncated"
    FAILED = "failed"


class RolloutFailure(Response):
    """Why a rollout failed: the cause, the exception's type and text, and its traceback if there is one."""

    kind: FailureKind
    type: str
    message: str
    traceback: str = ""


class TokenData(Response):
    """Tokens of one turn, exactly as the engine saw and sampled them.

    prompt_ids: [P]; completion_ids: [C]; logprobs: [C] natural-log probabilities of the sampler, or empty.
    """

    prompt_ids: tuple[int, ...] = ()
    completion_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()


def _storable(count: Any) -> Any:
    """Clamp a count to what databases can store: endpoints and boxes report anything, which must not fail a rollout."""
    return max(-(2**63), min(count, 2**63 - 1)) if isinstance(count, int) else count


TokenCount = Annotated[Whole, BeforeValidator(_storable)]


class Usage(Response):
    """Token counts as the endpoint reported them."""

    prompt_tokens: TokenCount = 0
    completion_tokens: TokenCount = 0


class Continued(Response):
    """A request that begins like an earlier call. That part is left out, and envhub.packaging.calls restores it."""

    turn: int  # index of the earlier call
    items: int = 0  # number of items of its `messages` or `input` that this one begins with
    same: tuple[str, ...] = ()  # other fields with the same value: tools, system, ...


class TurnAgent(Response):
    """The part of a rollout that a call belongs to, if its environment has several agents.

    A part is one agent's work on one task. Parts with the same `name` and `task` can be compared.
    """

    id: str  # in the rollout; an agent may have several parts
    name: str = ""
    task: str = ""  # identity of what the agent was given
    reward: float | None = None  # of the part


class Turn(Response):
    """A model call, as the interceptor recorded it."""

    index: int
    route: str = "policy"  # "policy" or "judge"
    protocol: str  # "chat", "completions", "messages", "responses", "tokens"
    response_id: str = ""
    model: str
    # the body without credentials and without what `continues` names: messages or prompt, tools, sampling
    request: StoredObject
    continues: Continued | None = Field(default=None, exclude_if=lambda continued: continued is None)
    response: StoredObject  # the complete answer, assembled if it was streamed
    finish_reason: str | None = None
    status: int = 200
    error: str = ""
    tokens: TokenData | None = None
    token_texts: tuple[str, ...] = ()  # of tokens.completion_ids as the endpoint spells them, for display
    usage: Usage = Usage()
    policy_version: int | None = None
    started_s: float = 0.0  # seconds since the start of the rollout
    latency_s: float = 0.0
    retries: int = 0
    trainable: bool = True
    replayed: Replayed | None = None  # set if the answer came from a stored rollout
    reward: float | None = None  # of this turn alone, if the environment gives one
    advantage: float | None = None  # likewise
    agent: TurnAgent | None = Field(default=None, exclude_if=lambda agent: agent is None)


class SandboxCommand(Response):
    """A command that ran in a sandbox of the rollout."""

    argv: tuple[str, ...]
    cwd: str
    started_s: float  # seconds since the start of the rollout
    seconds: float
    exit_code: int  # 128 + the signal's number if a signal ended it
    output: str  # head and tail of both streams
    truncated: bool = False
    timed_out: bool = False
    unfinished: bool = False  # its sandbox ended before it


class SandboxUse(Response):
    """A sandbox that the rollout's environment created, and what was done in it."""

    id: str
    image: str  # as it was requested
    digest: str = ""  # of the image that it ran on; "" if it never ran
    served_as: str = ""  # the image used in its place
    state: str  # how it ended: "stopped", "timed_out", "out_of_memory", "failed"
    reason: str = ""
    cpus: float
    memory_mb: int
    created_s: float  # seconds since the start of the rollout
    seconds: float  # from creation to end
    commands: tuple[SandboxCommand, ...] = ()
    commands_dropped: int = 0  # number of commands beyond those kept


class Timing(Response):
    """Wall-clock seconds."""

    total_s: float = 0.0
    generation_s: float = 0.0
    scoring_s: float = 0.0


class RolloutRecord(Response):
    """A rollout, as found in segment files, in `hub eval pull` and on the rollout page."""

    example: int
    rollout: int  # 0 <= rollout < rollouts_per_example
    example_hash: str  # SHA-256 of the example's canonical JSON row
    outcome: Outcome
    reward: float | None = None  # None if the outcome is failed, whatever the library computed
    metrics: dict[str, float] = Field(default_factory=dict)  # every reward function and metric, unweighted
    weights: dict[str, float] = Field(default_factory=dict)  # weight of each metric in the reward, if known
    advantage: float | None = None  # only if the environment provides advantages
    failure: RolloutFailure | None = None
    stop_condition: str | None = None
    task: StoredObject = Field(default_factory=dict)  # prompt, answer and info of the dataset row
    prompt: Json = None  # messages, or a string for completion environments
    completion: Json = None
    turns: tuple[Turn, ...] = ()
    usage: Usage = Usage()
    judge_usage: Usage = Usage()
    timing: Timing = Timing()
    sandboxes: tuple[SandboxUse, ...] = ()
    extras: StoredObject = Field(default_factory=dict)  # requested state columns and routed data
    library: StoredObject = Field(default_factory=dict)  # the library's own record, untouched
