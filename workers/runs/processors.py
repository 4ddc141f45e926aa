"""What this process, its programs and its boxes take of processors. A pool's child has one run at a time."""

from __future__ import annotations

import os

_of_boxes = 0.0  # seconds


def note_box(seconds: float) -> None:
    """A box that ends has had these: its kernel's groups count them, since its processes are killed, not waited for."""
    global _of_boxes
    _of_boxes += seconds


def processor_seconds() -> float:
    """So far: of this process, of programs that have ended, and of boxes that have."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system + _of_boxes
