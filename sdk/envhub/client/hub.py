"""The client of a hub's API: one attribute for each part of the API, one method for each call."""

from __future__ import annotations

from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING

import httpx

from envhub.client.connection import Connection, Retry

if TYPE_CHECKING:
    from envhub.client.accounts import Accounts
    from envhub.client.audit import Audit
    from envhub.client.blobs import Blobs
    from envhub.client.bundles import Bundles
    from envhub.client.data import Data
    from envhub.client.deployments import Deployments
    from envhub.client.environments import Environments
    from envhub.client.evaluations import Evaluations
    from envhub.client.images import Images
    from envhub.client.links import Links
    from envhub.client.models import Models
    from envhub.client.notices import Notices
    from envhub.client.quotas import Quotas
    from envhub.client.runs import Runs
    from envhub.client.sandboxes import Sandboxes
    from envhub.client.secrets import Secrets
    from envhub.client.teams import Teams
    from envhub.client.training import Training
    from envhub.client.usage import Usage
    from envhub.client.users import Users
    from envhub.client.webhooks import Webhooks
    from envhub.client.workers import Workers

MOVES_BYTES = {"environments", "evaluations", "models", "data", "images", "bundles"}


class HubClient:
    """The client. Use it as `with HubClient(url, token) as hub: hub.environments.list()`.

    `transport` replaces the network: `httpx.WSGITransport(django_app)` drives a hub in-process. `traceparent` (W3C)
    adds its calls, and the runs that they start, to the caller's trace. Every method raises `envhub.errors.ApiError`
    (by status) or `ConnectionFailed`.
    """

    accounts: Accounts
    audit: Audit
    blobs: Blobs
    bundles: Bundles
    environments: Environments
    quotas: Quotas
    runs: Runs
    evaluations: Evaluations
    links: Links
    notices: Notices
    models: Models
    secrets: Secrets
    data: Data
    images: Images
    teams: Teams
    training: Training
    deployments: Deployments
    sandboxes: Sandboxes
    webhooks: Webhooks
    workers: Workers
    users: Users
    usage: Usage

    def __init__(
        self,
        url: str,
        token: str | None = None,
        transport: httpx.BaseTransport | None = None,
        retry: Retry | None = None,
        traceparent: str = "",
        timeout_s: float = 60.0,
    ) -> None:
        self.connection = Connection(
            url, token, transport=transport, retry=retry, traceparent=traceparent, timeout_s=timeout_s
        )

    if not TYPE_CHECKING:  # would hide misspelt attributes from a type checker

        def __getattr__(self, name: str) -> object:
            """Create a part on first use, because importing all wire types takes longer than most calls."""
            if name not in HubClient.__annotations__:
                raise AttributeError(f"a hub's client has no {name!r}", name=name, obj=self)
            kind = getattr(import_module(f"envhub.client.{name}"), name.capitalize())
            part = kind(self.connection, self.blobs) if name in MOVES_BYTES else kind(self.connection)
            setattr(self, name, part)
            return part

    @property
    def url(self) -> str:
        """The hub's address, without a trailing slash."""
        return self.connection.url

    def close(self) -> None:
        """Close the sockets."""
        self.connection.close()

    def __enter__(self) -> HubClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
