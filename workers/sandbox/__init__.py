"""Boxes that run untrusted code. `backends(names, root)` returns a Sandbox, the interface described in interface.py."""

from .backends import backend, backends, sweep_leftovers
from .binds import venv_binds
from .cpu_time import cpu_seconds_of_boxes
from .errors import (
    BoxExpired,
    BoxFailed,
    BoxGone,
    BoxKilled,
    BoxOutOfMemory,
    EngineAway,
    FileRefused,
    NotEnforceable,
    SandboxError,
    TooLarge,
    Unavailable,
)
from .folders import make_folder, socket_folder
from .interface import (
    TRUSTED,
    Bind,
    Box,
    BoxSpec,
    Destination,
    ExecResult,
    Facts,
    Job,
    Limits,
    Network,
    Outside,
    Sandbox,
    Stats,
)

__all__ = [
    "TRUSTED",
    "Bind",
    "Box",
    "BoxExpired",
    "BoxFailed",
    "BoxGone",
    "BoxKilled",
    "BoxOutOfMemory",
    "BoxSpec",
    "Destination",
    "EngineAway",
    "ExecResult",
    "Facts",
    "FileRefused",
    "Job",
    "Limits",
    "Network",
    "NotEnforceable",
    "Outside",
    "Sandbox",
    "SandboxError",
    "Stats",
    "TooLarge",
    "Unavailable",
    "backend",
    "backends",
    "cpu_seconds_of_boxes",
    "make_folder",
    "socket_folder",
    "sweep_leftovers",
    "venv_binds",
]  # fmt: skip
