"""Sandboxes are made, listed and ended."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.fakes.sandboxes import LACKING_IMAGE, SLOW_IMAGE
from tests.workers.broker.prime.service import Client
from workers.broker.interface import NeverFits, State, TooMany, Wish
from workers.broker.prime import service


async def test_a_request_becomes_the_wish_that_it_means(client: Client) -> None:
    held = await client.create(
        cpu_cores=2, memory_gb=0.5, disk_size_gb=3, timeout_minutes=-1, idle_timeout_minutes=2, labels=["a"],
        start_command="serve --all", network_access=False,
    )  # fmt: skip
    assert held.wish == Wish(
        "python:3.11-slim",
        "try",
        ("a",),
        ("/bin/sh", "-c", "serve --all"),
        2.0,
        512,
        3072,
        30 * 24 * 3600.0,
        120.0,
        {},
        (),
    )


async def test_the_command_that_only_keeps_a_container_alive_is_not_started(client: Client) -> None:
    assert (await client.create(start_command="tail -f /dev/null")).wish.start_command == ()
    command = {"executable": "sleep", "args": ["infinity"]}
    assert (await client.create(start_command=command)).wish.start_command == ()


async def test_a_sandbox_is_made_for_the_rollout_that_the_runner_names(client: Client) -> None:
    body = {"name": "x", "docker_image": "x"}
    _, told = await client.call("POST", "/api/v1/sandbox", json=body, headers={"X-Envhub-Rollout": "g1.0"})
    assert client.session.sandboxes[told["id"]].rollout == "g1.0"


async def test_a_request_that_comes_twice_makes_one_sandbox(client: Client) -> None:
    made = await asyncio.gather(*(client.create(idempotency_key="k") for _ in range(5)))
    assert len({held.id for held in made}) == len(client.session.sandboxes) == 1


async def test_a_refused_creation_is_tried_again_under_the_same_key(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(*_args: Any, **_more: Any) -> Any:
        raise TooMany("no room", "end some")

    body = {"name": "x", "docker_image": "x", "idempotency_key": "k"}
    with monkeypatch.context() as patch:
        patch.setattr(client.session, "create", full)
        assert await client.call("POST", "/api/v1/sandbox", json=body) == (429, {"detail": "no room (end some)"})
    assert (await client.call("POST", "/api/v1/sandbox", json=body))[0] == 200


async def test_what_can_never_be_had_is_refused_at_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_args: Any, **_more: Any) -> Any:
        raise NeverFits("too large", "ask for less")

    monkeypatch.setattr(client.session, "create", never)
    answer = await client.call("POST", "/api/v1/sandbox", json={"name": "x", "docker_image": "x"})
    assert answer == (422, {"detail": "too large (ask for less)"})


@pytest.mark.parametrize(
    ("more", "status", "said"),
    [
        ({"gpu_count": 1}, 501, "no GPU"),
        ({"checkpoint_id": "c"}, 501, "checkpoints"),
        ({"volumes": [{}]}, 501, "volumes"),
        ({"docker_image": None}, 422, "docker_image"),
        ({"network_allowlist": ["elsewhere.example.org"]}, 403, "elsewhere.example.org"),
        ({"cpu_cores": "many"}, 422, "cpu_cores"),
    ],
)
async def test_what_cannot_be_is_refused_in_words(client: Client, more: dict[str, Any], status: int, said: str) -> None:
    body = {"name": "x", "docker_image": "x", **more}
    answer = await client.call("POST", "/api/v1/sandbox", json=body)
    assert answer[0] == status
    assert said in answer[1]["detail"]


async def test_a_question_waits_for_a_sandbox_that_is_about_to_be_ready(client: Client) -> None:
    held = await client.create(docker_image=SLOW_IMAGE)
    asyncio.get_running_loop().call_later(0.05, held.begin)
    assert (await client.call("GET", f"/api/v1/sandbox/{held.id}"))[1]["status"] == "RUNNING"


async def test_a_question_does_not_wait_long(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service.settle, "__defaults__", (0.01,))
    held = await client.create(docker_image=SLOW_IMAGE)
    _, told = await client.call("POST", "/api/v1/sandbox/status:batchGet", json={"sandbox_ids": [held.id, "no"]})
    assert (told["statuses"][0]["status"], told["errors"][0]["code"]) == ("PENDING", "NOT_FOUND")


@pytest.mark.parametrize(
    ("state", "status", "error_type"),
    [
        (State.STOPPED, "TERMINATED", None),
        (State.TIMED_OUT, "TIMEOUT", "TIMEOUT"),
        (State.OUT_OF_MEMORY, "ERROR", "OOM_KILLED"),
        (State.FAILED, "ERROR", "HOST_FAILURE"),
    ],
)
async def test_how_a_sandbox_ended_is_told(client: Client, state: State, status: str, error_type: str | None) -> None:
    held = await client.create()
    await held.end(state, "why")
    _, told = await client.call("GET", f"/api/v1/sandbox/{held.id}/error-context")
    assert told == {"status": status, "errorType": error_type, "errorMessage": "why"}


async def test_an_image_that_cannot_be_had_is_told_as_such(client: Client) -> None:
    held = await client.create(docker_image=LACKING_IMAGE)
    assert (await client.call("GET", f"/api/v1/sandbox/{held.id}"))[1]["errorType"] == "IMAGE_PULL_FAILED"


async def test_a_list_has_pages_labels_and_the_living(client: Client) -> None:
    made = [await client.create(labels=["a", str(number)]) for number in range(3)]
    await made[0].end()
    _, told = await client.call("GET", "/api/v1/sandbox?labels=a&is_active=true&per_page=1&page=2")
    assert ([it["id"] for it in told["sandboxes"]], told["total"], told["hasNext"]) == ([made[2].id], 2, False)
    assert (await client.call("GET", "/api/v1/sandbox?status=TERMINATED"))[1]["total"] == 1


async def test_many_are_deleted_at_once_and_the_unknown_named(client: Client) -> None:
    made = [await client.create(labels=["a"]) for _ in range(2)]
    _, told = await client.call("DELETE", "/api/v1/sandbox", json={"sandbox_ids": [made[0].id, "no"]})
    assert (told["succeeded"], [it["sandbox_id"] for it in told["failed"]]) == ([made[0].id], ["no"])
    assert (await client.call("DELETE", "/api/v1/sandbox", json={"labels": ["a"]}))[1]["succeeded"] == [made[1].id]
    assert (await client.call("DELETE", "/api/v1/sandbox", json={}))[0] == 422
