"""The `hub` command: noun verb, thin over envhub.client and envhub.packaging."""

import sys

# httpx would import its own command line too, with click and pygments: a third of every start of ours. None in
# sys.modules makes that one import fail, which httpx provides for.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
