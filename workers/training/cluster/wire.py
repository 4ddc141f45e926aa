"""Lines of JSON between a run's coordinator and the driver of its cluster, over the driver's standard streams.

To the driver: `Bring` (a directory to an engine's host; answered by `Brought`), `Restart`, `GiveRollouts`. From it:
the rest.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter


class Line(BaseModel):
    """Base of every line."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Bring(Line):
    """Have a directory of the run on an engine's host."""

    what: Literal["bring"] = "bring"
    id: int
    engine: int
    directory: str


class GiveRollouts(Line):
    """Open the run's environments on every host but the first. `start` is a RolloutServerStart, with secrets."""

    what: Literal["rollouts"] = "rollouts"
    start: dict[str, object] = Field(repr=False)


class Restart(Line):
    """End an engine; the driver starts it anew."""

    what: Literal["restart"] = "restart"
    engine: int


class Placed(Line):
    """The run has its share of these hosts."""

    what: Literal["placed"] = "placed"
    hosts: tuple[str, ...]
    ip: str  # of the first host, as the others reach it


class Said(Line):
    """For the run's log."""

    what: Literal["said"] = "said"
    text: str
    waits: bool = False  # it is what the run waits for, and its page says so


class EngineUp(Line):
    """An engine answers, to callers that know its key."""

    what: Literal["up"] = "up"
    engine: int
    host: str
    base_url: str
    key: str = Field(repr=False)


class EngineDown(Line):
    """An engine has ended. host_lost: with its host, which is no fault of the engine."""

    what: Literal["down"] = "down"
    engine: int
    reason: str
    host_lost: bool = False


class RolloutsUp(Line):
    """A host's rollout server answers, to callers that know its key."""

    what: Literal["rollouts up"] = "rollouts up"
    host: int
    ip: str
    base_url: str
    key: str = Field(repr=False)


class RolloutsDown(Line):
    """A host gives no rollouts any longer."""

    what: Literal["rollouts down"] = "rollouts down"
    host: int
    reason: str


class Brought(Line):
    """Where the directory is on the engine's host; `error` where it is not."""

    what: Literal["brought"] = "brought"
    id: int
    path: str = ""
    error: str = ""


Command = Bring | Restart | GiveRollouts
Event = Placed | Said | EngineUp | EngineDown | RolloutsUp | RolloutsDown | Brought
COMMAND: TypeAdapter[Command] = TypeAdapter(Annotated[Command, Field(discriminator="what")])
EVENT: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="what")])
