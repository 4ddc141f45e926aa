"""JSON lines between a run's coordinator and the driver of its cluster, over the driver's standard streams.

The coordinator sends `Bring` (answered by `Brought`), `Restart`, `Pause` and `GiveRollouts`; the driver sends the
others.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter


class Line(BaseModel):
    """Base of every line."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Bring(Line):
    """Copy a directory of the run to all hosts of an engine."""

    what: Literal["bring"] = "bring"
    id: int
    engine: int
    directory: str


class GiveRollouts(Line):
    """Open the run's environments on every host but the first. `start` is a RolloutServerStart, with secrets."""

    what: Literal["rollouts"] = "rollouts"
    start: dict[str, object] = Field(repr=False)


class Restart(Line):
    """End an engine; the driver starts it again."""

    what: Literal["restart"] = "restart"
    engine: int


class Pause(Line):
    """Start an engine that has ended again only after so many more seconds."""

    what: Literal["pause"] = "pause"
    engine: int
    seconds: float


class Placed(Line):
    """The run has its share on these hosts."""

    what: Literal["placed"] = "placed"
    hosts: tuple[str, ...]
    ip: str  # the first host's address for the others


class Said(Line):
    """Text for the run's log."""

    what: Literal["said"] = "said"
    text: str
    waits: bool = False  # the run waits for this; its page shows the text


class EngineUp(Line):
    """An engine answers callers that know its key. `host` names all of its hosts."""

    what: Literal["up"] = "up"
    engine: int
    host: str
    base_url: str
    key: str = Field(repr=False)


class EngineDown(Line):
    """An engine has ended. host_lost: its host was lost, which is no fault of the engine."""

    what: Literal["down"] = "down"
    engine: int
    reason: str
    host_lost: bool = False


class ExtraGpusHeld(Line):
    """Extra engines hold so many GPUs from now on."""

    what: Literal["extra gpus"] = "extra gpus"
    count: int


class RolloutsUp(Line):
    """A host's rollout server answers callers that know its key."""

    what: Literal["rollouts up"] = "rollouts up"
    host: int
    ip: str
    base_url: str
    key: str = Field(repr=False)


class RolloutsDown(Line):
    """A host runs no rollouts any more."""

    what: Literal["rollouts down"] = "rollouts down"
    host: int
    reason: str


class Brought(Line):
    """The path by which the engine finds the directory on each of its hosts, or an `error`."""

    what: Literal["brought"] = "brought"
    id: int
    path: str = ""
    error: str = ""


Command = Bring | Restart | Pause | GiveRollouts
Event = Placed | Said | EngineUp | EngineDown | ExtraGpusHeld | RolloutsUp | RolloutsDown | Brought
COMMAND: TypeAdapter[Command] = TypeAdapter(Annotated[Command, Field(discriminator="what")])
EVENT: TypeAdapter[Event] = TypeAdapter(Annotated[Event, Field(discriminator="what")])
