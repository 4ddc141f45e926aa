"""Whether an environment marker holds in the environment of a build, which is not the worker's own."""

from __future__ import annotations

from packaging.markers import Marker

from workers.venvs.interpreters import Interpreter


def applies(marker: Marker | None, interpreter: Interpreter, extra: str = "") -> bool:
    """Of a requirement without a marker it always does."""
    python = {"python_version": interpreter.short, "python_full_version": interpreter.full}
    return marker is None or marker.evaluate({"extra": extra, **python})
