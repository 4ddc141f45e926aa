"""Joining a cluster: a worker token is told the heads of those that may do no more than it, with Ray's token."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from envhub.protocol.placing.clusters import ClusterFacts
from envhub.protocol.runs import WorkerFacts

from hub.accounts.models import Owner
from hub.runs.models import Worker, WorkerToken
from hub.runs.services import revoke_worker_token
from tests.factories.accounts import make_user
from tests.factories.runs import make_worker_token

pytestmark = pytest.mark.django_db


def join(client: Client, secret: str, **cluster: Any) -> dict[str, Any]:
    facts = WorkerFacts(cluster=ClusterFacts(ray="2.60.0", python="3.11.2", **cluster), version="0.1.0")
    body = {"name": "gpu-0", "hostname": "h", "queues": [], "slots": {}, "sandbox": "bwrap"}
    answer = client.post(
        "/api/v1/workers/join",
        body | {"facts": facts.model_dump(mode="json")},
        content_type="application/json",
        headers={"Authorization": f"Bearer {secret}"},
    )
    assert answer.status_code == 200, answer.content
    return dict(answer.json())


def heads(client: Client, secret: str) -> list[dict[str, Any]]:
    answer = client.get("/api/v1/workers/clusters", headers={"Authorization": f"Bearer {secret}"})
    assert answer.status_code == 200
    assert answer["Cache-Control"] == "no-store"
    return list(answer.json()["heads"])


def grown(client: Client, **token: Any) -> tuple[str, WorkerToken]:
    """A token with a worker whose own cluster has started."""
    secret, row = make_worker_token(**token)
    join(client, secret, own=True, address="10.0.0.5:6390")
    return secret, row


def test_a_head_and_a_host_are_given_the_same_token_and_nobody_keeps_it(client: Client) -> None:
    secret, _ = grown(client)
    found = join(client, secret, own=True, address="10.0.0.5:6390")["cluster_token"]
    assert heads(client, secret) == [
        {"name": "gpu-0", "address": "10.0.0.5:6390", "token": found, "ray": "2.60.0", "python": "3.11.2",
         "version": "0.1.0"},
    ]  # fmt: skip
    assert len(found) == 64
    assert found not in str(list(Worker.objects.values()))


def test_only_who_starts_a_head_is_given_its_token(client: Client) -> None:
    secret, _ = make_worker_token()
    assert join(client, secret, own=False, address="ray-head:6379")["cluster_token"] == ""
    assert heads(client, secret) == []
    assert len(join(client, secret, own=True)["cluster_token"]) == 64
    assert heads(client, secret) == []  # it has not started yet


def test_two_workers_have_two_tokens(client: Client) -> None:
    tokens = {join(client, make_worker_token()[0], own=True)["cluster_token"] for _ in range(2)}
    assert len(tokens) == 2


@pytest.mark.parametrize(
    ("head", "host", "may"),
    [({}, {}, True), ({"queues": ("gpu",)}, {}, True), ({}, {"queues": ("gpu",)}, False),
     ({"queues": ("gpu",)}, {"queues": ("gpu", "train")}, True), ({"queues": ("gpu",)}, {"queues": ("train",)}, False),
     ({"owners": "a"}, {}, True), ({}, {"owners": "a"}, False), ({"owners": "a"}, {"owners": "ab"}, True),
     ({"owners": "ab"}, {"owners": "a"}, False)],
)  # fmt: skip
def test_a_host_may_see_what_runs_on_the_cluster(
    client: Client, head: dict[str, Any], host: dict[str, Any], may: bool
) -> None:
    people: dict[str, Owner] = {name: make_user().owner for name in "ab"}
    for wish in (head, host):
        wish["owners"] = tuple(people[name] for name in wish.get("owners", ""))
    grown(client, **head)
    assert bool(heads(client, make_worker_token(**host)[0])) is may


def test_a_cluster_ends_with_its_workers_token_or_when_that_is_silent(client: Client) -> None:
    _, token = grown(client)
    other, _ = make_worker_token()
    assert len(heads(client, other)) == 1
    revoke_worker_token(token=token, now=timezone.now())
    assert heads(client, other) == []
    WorkerToken.objects.update(revoked_at=None)
    Worker.objects.update(seen_at=timezone.now() - timedelta(minutes=5))
    assert heads(client, other) == []
