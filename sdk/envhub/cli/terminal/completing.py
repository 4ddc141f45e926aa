"""Names and ids that a shell offers at Tab: the hub is asked once, briefly; when it is away, nothing is offered."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

import typer

from envhub.cli.terminal.session import Session
from envhub.cli.terminal.short_ids import shortened
from envhub.client import HubClient
from envhub.client.connection import Retry
from envhub.errors import EnvhubError

OFFERED = 50  # a page of the hub's lists
PATIENCE_S = 2.0  # of somebody who has pressed Tab

Named = tuple[str, str]  # what is offered, and a word about it
Complete = Callable[..., list[Named]]


def _completion(question: Callable[[HubClient, str], Iterable[Named]]) -> Complete:
    """A completion that asks the hub; it never fails, for a shell would print that into the line."""

    def complete(ctx: typer.Context, incomplete: str) -> list[Named]:
        session = ctx.find_root().obj or Session()
        try:
            found = session.configuration
            hub = HubClient(found.url, found.token, session.transport, Retry(attempts=1), timeout_s=PATIENCE_S)
            with hub:
                return [item for item in question(hub, incomplete) if item[0].startswith(incomplete)]
        except (EnvhubError, OSError):
            return []

    return complete


def _environments(hub: HubClient, incomplete: str) -> list[Named]:
    owner, slash, name = incomplete.rpartition("/")
    found = hub.environments.list(search=name or None, owner=owner if slash else None)
    return [(f"{one.owner}/{one.name}", one.description) for one in islice(found, OFFERED)]


def _models(hub: HubClient, incomplete: str) -> list[Named]:
    return [(f"{one.owner}/{one.name}", "") for one in islice(hub.models.list(), 4 * OFFERED)]


def _evaluations(hub: HubClient, incomplete: str) -> list[Named]:
    found = islice(hub.evaluations.list(), OFFERED)
    return _short({one.id: f"{one.model} on {one.environment}, {one.state.value}" for one in found}, incomplete)


def _runs(hub: HubClient, incomplete: str) -> list[Named]:
    found = islice(hub.runs.list(), OFFERED)
    return _short({one.id: f"{one.kind.value}, {one.subject}, {one.state.value}" for one in found}, incomplete)


def _training(hub: HubClient, incomplete: str) -> list[Named]:
    found = list(islice(hub.training.list(), OFFERED))
    ids = {one.id: f"{one.name or one.model}, {one.state.value}" for one in found}
    return [*((one.name, one.state.value) for one in found if one.name), *_short(ids, incomplete)]


def _sandboxes(hub: HubClient, incomplete: str) -> list[Named]:
    found = islice(hub.sandboxes.list(), OFFERED)
    return _short({one.id: f"{one.name or one.image}, {one.state.value}" for one in found}, incomplete)


def _short(about: dict[str, str], incomplete: str) -> list[Named]:
    """Ids by as few characters as tables show, whole where more were typed."""
    short = shortened(about)
    return [(short[one] if len(incomplete) <= len(short[one]) else one, text) for one, text in about.items()]


environments = _completion(_environments)
models = _completion(_models)
evaluations = _completion(_evaluations)
runs = _completion(_runs)
training_runs = _completion(_training)
sandboxes = _completion(_sandboxes)
