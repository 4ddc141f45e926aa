"""What the boxes of this process have had of processors. A pool's child has one run at a time: they are its run's."""

_seconds = 0.0


def note(seconds: float) -> None:
    """Of a box that ends: its kernel's groups count them, since its processes are killed, not waited for."""
    global _seconds
    _seconds += seconds


def spent_seconds() -> float:
    """Of all that have ended so far."""
    return _seconds
