"""What can go wrong with an environment. Builds turn these into failures of the version.

VenvError
|-- NoPython        no_python         no interpreter here satisfies what the package asks for
|-- DangerousWheel  dangerous_wheel   a wheel would overwrite parts of the environment itself
|-- BadWheel        bad_wheel         not the bytes that the lock names, or not a wheel
`-- ToolFailed      tool_failed       uv or the byte compiler did not run
"""

from __future__ import annotations

from envhub.errors import EnvhubError


class VenvError(EnvhubError):
    """Base of all."""

    code = "environment_error"


class NoPython(VenvError):
    """No interpreter on this worker fits."""

    code = "no_python"


class DangerousWheel(VenvError):
    """A wheel that must not be installed."""

    code = "dangerous_wheel"


class BadWheel(VenvError):
    """Not what the lock names."""

    code = "bad_wheel"


class ToolFailed(VenvError):
    """A tool that the worker itself starts failed."""

    code = "tool_failed"
