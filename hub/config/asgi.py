"""The ASGI entry point: `uvicorn hub.config.asgi:application`. Installers' reads and model calls skip Django."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hub.config.settings")
_django = get_asgi_application()

from hub.core.body_limit import BodyLimit  # noqa: E402
from hub.inference.direct import DirectGateway  # noqa: E402
from hub.registry.index import DirectIndex  # noqa: E402  models need Django to be set up
from hub.registry.urls import index_urls  # noqa: E402
from hub.storage.uploads import body_limit  # noqa: E402

application = DirectIndex(BodyLimit(DirectGateway(_django), body_limit), index_urls)
