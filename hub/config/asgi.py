"""The ASGI entry point: `uvicorn hub.config.asgi:application`. Installers' reads, and calls of models and sandboxes,
skip Django.
"""

import gc
import os

import django

gc.disable()  # until all is imported: an eighth of the time it takes, and there is no garbage
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hub.config.settings")

from django.conf import settings  # noqa: E402

from hub.core.shared_counters import share_counters  # noqa: E402

share_counters(settings.HUB.data)
django.setup(set_prefix=False)

from envhub.client.open_files import allow_open_files  # noqa: E402
from envhub.client.telemetry.tracing import start_tracing  # noqa: E402

from hub.core.metrics import SPANS_LOST  # noqa: E402
from hub.core.requests.body_limit import Application, BodyLimit  # noqa: E402
from hub.core.requests.handler import ThreadedHandler  # noqa: E402
from hub.core.requests.observed import Observed  # noqa: E402
from hub.inference.direct import DirectGateway  # noqa: E402
from hub.registry.index import DirectIndex  # noqa: E402  models need Django to be set up
from hub.registry.urls import index_urls  # noqa: E402
from hub.sandboxes.direct import DirectSandboxes  # noqa: E402
from hub.storage.uploads import body_limit  # noqa: E402

gc.freeze()
gc.enable()
allow_open_files()
start_tracing("envhub-hub", lost=SPANS_LOST.inc)
_limited = BodyLimit(DirectGateway(ThreadedHandler()), body_limit)
_counted: Application = DirectIndex(DirectSandboxes(_limited), index_urls)
_token, _address = settings.HUB.token_requests_per_minute, settings.HUB.address_requests_per_minute
if _token or _address:
    from hub.core.requests.rate_limits import RateLimits

    _counted = RateLimits(_counted, per_token=_token, per_address=_address, broker_url=settings.HUB.broker_url)
application = Observed(_counted)
