"""Boxes for code that nobody trusts. `backend(name, root)` gives a Sandbox; interface.py says what that is."""

from .backends import backend
from .binds import venv_binds
from .errors import BoxFailed, BoxGone, FileRefused, NotEnforceable, SandboxError, TooLarge, Unavailable
from .interface import (
    Bind,
    Box,
    BoxSpec,
    Destination,
    ExecResult,
    Facts,
    Job,
    Limits,
    Network,
    Sandbox,
    Stats,
)

__all__ = [
    "Bind", "Box", "BoxFailed", "BoxGone", "BoxSpec", "Destination", "ExecResult", "Facts", "FileRefused",
    "Job", "Limits", "Network", "NotEnforceable", "Sandbox", "SandboxError", "Stats", "TooLarge",
    "Unavailable", "backend", "venv_binds",
]  # fmt: skip
