"""Errors of boxes. All are infrastructure failures or limits, never the fault of the calling code.

SandboxError
├── Unavailable     no box can be made on this host; the message says how to fix that
│   └── EngineAway  the engine's daemon does not answer; it may be starting again
├── NotEnforceable  the specification asks for a limit that this host cannot enforce
├── BoxFailed       the box could not be started
├── BoxGone         the box has ended (killed, out of memory, lifetime over)
│   ├── BoxKilled   and this worker did not end it
│   ├── BoxExpired  its lifetime is over
│   └── BoxOutOfMemory  its memory limit ended it
└── FileRefused     a path in the box does not exist or is not a plain file with a single link
    └── TooLarge    it is larger than the caller allows
"""


class SandboxError(Exception):
    """Any error of a sandbox. `code` is stable, `hint` says what to do."""

    code = "sandbox_error"

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class Unavailable(SandboxError):
    code = "sandbox_unavailable"


class EngineAway(Unavailable):
    code = "sandbox_unavailable"


class NotEnforceable(SandboxError):
    code = "limit_not_enforceable"


class BoxFailed(SandboxError):
    code = "sandbox_failed"


class BoxGone(SandboxError):
    code = "sandbox_gone"


class BoxKilled(BoxGone):
    """The box was killed, usually from outside: by an operator, or because the host ran out of memory.

    The box's own code can cause it too.
    """


class BoxExpired(BoxGone):
    pass


class BoxOutOfMemory(BoxGone):
    pass


class FileRefused(SandboxError):
    code = "file_refused"


class TooLarge(FileRefused):
    code = "file_too_large"
