"""Which sandbox a worker uses: a name from its settings."""

from pathlib import Path

from .bwrap import BwrapSandbox
from .errors import Unavailable
from .interface import Sandbox
from .process import ProcessSandbox

NAMES = ("bwrap", "process")


def backend(name: str, root: Path, *, accept_no_isolation: bool = False) -> Sandbox:
    """The sandbox of that name; `root` is its directory (records, sweep). It sweeps first.

    "process" isolates nothing and needs accept_no_isolation as well. Raises Unavailable with what to do.
    """
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    if name == "bwrap":
        sandbox: Sandbox = BwrapSandbox(root)
    elif name == "process":
        if not accept_no_isolation:
            raise Unavailable(
                "the process backend runs hostile code as the worker itself",
                "set WORKER_SANDBOX_ACCEPT_NO_ISOLATION=true as well, if that is what you want",
            )
        sandbox = ProcessSandbox(root)
    else:
        raise Unavailable(f"no sandbox named {name!r}", f"one of {', '.join(NAMES)}")
    sandbox.sweep()
    return sandbox
