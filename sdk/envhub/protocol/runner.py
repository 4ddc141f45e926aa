"""Frames between the worker and the runner in the box: 4-byte big-endian length, then UTF-8 JSON, at most 16 MiB.

The runner (standard library only) writes these shapes by hand; golden files in tests/contract keep both sides in
sync.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, field_validator

from envhub.protocol.base import Count, Json, JsonObject, Number, Request, Response, Split, StoredObject, Whole
from envhub.protocol.evals.rollouts import RolloutRecord
from envhub.protocol.registry.needs import Need
from envhub.protocol.registry.packages import Generation
from envhub.protocol.runs import Failure
from envhub.protocol.sandboxes.images import is_name

MAX_FRAME = 16 * 1024 * 1024


class Policy(Request):
    """How a group reaches its model. `base_url` contains "{rollout}", which is replaced by the rollout's key.

    Keys are random and end with the group. A program that knows its own rollout's URL (one that a model wrote, say), or
    a box beside this one, cannot guess another rollout's URL and forge its turns. The keys are not secret from the
    environment's own code, which shares a process with all rollouts of its box and reports their scores anyway. Nor are
    they secret from a program that reads its siblings' environments in the box's /proc, since all programs of a box run
    as one user.
    """

    base_url: str  # "http://127.0.0.1:31980/r/{rollout}/v1"
    keys: tuple[str, ...] = ()  # one per rollout index of the group; none if the URL has no "{rollout}"
    group_key: str = ""  # used if the library drives the whole group through one client
    model: str
    api_key: str = "box"
    client_type: str = "openai_chat_completions"


class Load(Request):
    """The first command: import the package and create its environment. Answered by `hello` or `fatal`."""

    type: Literal["load"] = "load"
    env_id: str  # name of the distribution, such as "reverse-text"
    module: str  # name to import, such as "reverse_text"
    env_args: JsonObject = Field(default_factory=dict)
    taskset: JsonObject | None = None
    harness: JsonObject | None = None
    judge_base_url: str | None = None  # "http://127.0.0.1:31980/judge/v1"


class Describe(Request):
    """Answered by `described`."""

    type: Literal["describe"] = "describe"
    rows: Count = 3  # examples of each split to show; 0: only what a run needs, so not the images of its rows


class Group(Request):
    """Run `n` rollouts of one example. Answered by `rollout` frames as they end, then by one `group` frame."""

    type: Literal["group"] = "group"
    id: str
    example: Count
    split: Split = "eval"
    first_index: Count = 0
    n: Count = 1
    policy: Policy
    sampling: JsonObject = Field(default_factory=dict)
    seed: Whole | None = None
    deadline_s: Number | None = None  # wall seconds for each rollout
    state_columns: tuple[str, ...] = ()
    max_retries: Count = 0
    example_hash: str | None = None  # when resuming: if it differs, the answer is `fatal` dataset_changed
    scripted: bool = False  # for a build check: policy calls are not expected to succeed, a canned answer is served


class Cancel(Request):
    """Stop a group; its unfinished rollouts are reported as failed with kind `cancelled`."""

    type: Literal["cancel"] = "cancel"
    id: str


class Shutdown(Request):
    """Run the environment's teardown and exit 0."""

    type: Literal["shutdown"] = "shutdown"


Command = Annotated[Load | Describe | Group | Cancel | Shutdown, Field(discriminator="type")]


class Hello(Response):
    """The environment is loaded."""

    type: Literal["hello"] = "hello"
    generation: Generation
    verifiers: str
    python: str
    env_class: str
    requires_group: bool = False  # rollouts of an example must run as one group
    provides_advantages: bool = False
    in_process_harness: bool = False
    load_s: float = 0.0


class SplitInfo(Response):
    """The size of a split (None if unknown without reading all of it) and its first rows."""

    size: int | None
    rows: tuple[StoredObject, ...] = ()
    rows_of: str = ""  # if the environment has no split of this name, the one that supplied the rows
    # that sandboxes of rows need -> the first such row
    images: dict[Annotated[str, Field(max_length=300)], Count] = Field(default_factory=dict, max_length=1000)

    @field_validator("images")
    @classmethod
    def _possible(cls, images: dict[str, int]) -> dict[str, int]:
        """Drop names that no image can have: the runner is hostile, and rollouts with such names will say so."""
        return {name: row for name, row in images.items() if is_name(name)}


class Described(Response):
    """A description of the environment, shown on the version page and used to plan evaluations."""

    type: Literal["described"] = "described"
    env_class: str
    splits: dict[str, SplitInfo]
    system_prompt: str | None = None
    tools: tuple[StoredObject, ...] = ()
    rewards: dict[str, float] = Field(default_factory=dict)  # reward function -> weight (0 for metrics)
    message_type: str = "chat"
    requires_group: bool = False  # its rewards compare the rollouts of an example, so each example needs at least two
    max_turns: int | None = None
    args_schema: Json = None  # parameters of load_environment: name -> {default, annotation}

    def rows_of(self, split: str) -> str:
        """Return the split whose rows are used for `split`: "train" if the environment does not have it."""
        info = self.splits.get(split)
        return "train" if info is None else info.rows_of or split

    def size(self, split: str) -> int | None:
        """Return the number of rows of a split, or None if unknown."""
        info = self.splits.get(split) or self.splits.get("train")
        return None if info is None else info.size


class StepCredit(Response):
    """What the environment gave to one model call, in the order of the calls.

    Without a `response_id` (the library does not keep it), there is one for each answered call.
    """

    response_id: str = ""
    reward: float | None = None
    advantage: float | None = None


class AgentPart(Response):
    """An agent's part of a rollout, in an environment with several (envhub.protocol.evals.rollouts.TurnAgent)."""

    id: str  # sent in SESSION_HEADER of the part's model calls
    name: str
    task: str
    reward: float
    trainable: bool = True  # whether the run's model is trained on it


class RolloutDone(Response):
    """A rollout of a group has ended. `response_ids` are the model answers in the environment's trajectory."""

    type: Literal["rollout"] = "rollout"
    id: str
    record: RolloutRecord  # without turns, which the interceptor has
    response_ids: tuple[str, ...] = ()
    steps: tuple[StepCredit, ...] = ()  # empty if only the outcome is rewarded
    agents: tuple[AgentPart, ...] = ()  # empty if the rollout is the work of one agent, which is trained
    needs: tuple[Need, ...] = ()  # what a failed rollout asked for and could not get


class RolloutSpilled(Response):
    """A rollout too large for a frame. Its JSON is at `path` inside the box."""

    type: Literal["rollout_file"] = "rollout_file"
    id: str
    path: str


class GroupDone(Response):
    """All rollouts of the group have been reported."""

    type: Literal["group"] = "group"
    id: str


class Log(Response):
    """A line for the run's log from the runner itself. The environment's prints arrive through descriptors 1 and 2."""

    type: Literal["log"] = "log"
    text: str


class Fatal(Response):
    """The environment cannot be used (import error, no load_environment, bad arguments, dataset_changed, ...)."""

    type: Literal["fatal"] = "fatal"
    failure: Failure
    traceback: str = ""
    needs: tuple[Need, ...] = ()  # what it asked for and could not get; not a fault of the package
    certain: bool = True  # False: with another release of verifiers it may not ask for it


Event = Annotated[
    Hello | Described | RolloutDone | RolloutSpilled | GroupDone | Log | Fatal, Field(discriminator="type")
]
EVENTS: TypeAdapter[Event] = TypeAdapter(Event)
COMMANDS: TypeAdapter[Command] = TypeAdapter(Command)
