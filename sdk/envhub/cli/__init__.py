"""The `hub` command: noun verb, thin over envhub.client and envhub.packaging."""

import signal
import sys
from importlib import import_module

# httpx would import its own command line too, with click and pygments: a third of every start of ours. None in
# sys.modules makes that one import fail, which httpx provides for.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]


def hub() -> None:
    """What the installed script calls. A Ctrl-C while the imports last ends it as it ends programs in C, unsaid."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    app = import_module("envhub.cli.main").app
    signal.signal(signal.SIGINT, signal.default_int_handler)
    app()
