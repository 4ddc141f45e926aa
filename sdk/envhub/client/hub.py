"""The client of a hub's API: one attribute a part of the API, one method a call."""

from __future__ import annotations

from types import TracebackType

import httpx

from envhub.client.accounts import Accounts
from envhub.client.blobs import Blobs
from envhub.client.connection import Connection, Retry
from envhub.client.data import Data
from envhub.client.deployments import Deployments
from envhub.client.environments import Environments
from envhub.client.evaluations import Evaluations
from envhub.client.models import Models
from envhub.client.runs import Runs
from envhub.client.secrets import Secrets
from envhub.client.training import Training
from envhub.client.users import Users
from envhub.client.workers import Workers


class HubClient:
    """`with HubClient(url, token) as hub: hub.environments.list()`.

    `transport` replaces the network: `httpx.WSGITransport(django_app)` drives a hub in-process. Every method raises
    `envhub.errors.ApiError` (by status) or `ConnectionFailed`.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        transport: httpx.BaseTransport | None = None,
        retry: Retry | None = None,
    ) -> None:
        self.connection = Connection(url, token, transport=transport, retry=retry)
        self.accounts = Accounts(self.connection)
        self.blobs = Blobs(self.connection)
        self.environments = Environments(self.connection, self.blobs)
        self.runs = Runs(self.connection)
        self.evaluations = Evaluations(self.connection, self.blobs)
        self.models = Models(self.connection, self.blobs)
        self.secrets = Secrets(self.connection)
        self.data = Data(self.connection, self.blobs)
        self.training = Training(self.connection)
        self.deployments = Deployments(self.connection)
        self.workers = Workers(self.connection)
        self.users = Users(self.connection)

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
