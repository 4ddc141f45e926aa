"""`prime sandbox`, and programs that use prime-sandboxes with the caller's own token."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import httpx
import pytest
from django.conf import settings
from django.utils import timezone
from envhub.protocol.runs import Failure, FailureKind, RunState

from hub.accounts.models import User
from hub.compat.services import sandboxes
from hub.runs.services import end_attempt
from hub.sandboxes.addresses import clients_behind, place_behind
from hub.sandboxes.models import Sandbox
from hub.sandboxes.services import sandbox_payload
from tests.factories.accounts import make_owner, make_user
from tests.factories.sandboxes import create_ended, create_pending, create_running
from tests.hub.compat.prime_client import PrimeClient

pytestmark = pytest.mark.django_db
WISH = {  # of prime-sandboxes 0.5.1
    "name": "vm-python-x1y2",
    "docker_image": "python:3.11-slim",
    "arch": "amd64",
    "start_command": None,
    "cpu_cores": 1.0,
    "memory_gb": 2.0,
    "disk_size_gb": 5.0,
    "gpu_count": 0,
    "network_allowlist": None,
    "timeout_minutes": 60,
    "environment_vars": {"A": "1"},
    "secrets": {"B": "2"},
    "labels": ["one", "two"],
    "vm": True,
    "advanced_configs": {},
}


@pytest.fixture
def alice() -> User:
    return make_user("alice")


def make(prime: PrimeClient, **more: Any) -> dict[str, Any]:
    found: dict[str, Any] = prime.done("post", "sandbox", {**WISH, **more})
    return found


def test_what_is_asked_for_is_one_of_the_hubs_own_sandboxes(alice: User) -> None:
    told = make(PrimeClient(alice), start_command={"executable": "python", "args": ["-m", "http.server"]})
    row = Sandbox.objects.get(pk=told["id"])
    payload = sandbox_payload(row.run)
    assert (payload.image, payload.name, payload.labels) == ("python:3.11-slim", "vm-python-x1y2", ("one", "two"))
    assert (payload.cpus, payload.memory_mb, payload.disk_mb, payload.timeout_s) == (1.0, 2048, 5120, 3600.0)
    assert payload.env == {"A": "1", "B": "2"}
    assert payload.start_command == ("python", "-m", "http.server")
    assert (told["status"], told["memoryGB"], told["timeoutMinutes"]) == ("PENDING", 2, 60)
    assert (told["startCommand"], told["networkAccess"]) == (None, False)


@pytest.mark.parametrize("idle", ["tail -f /dev/null", {"executable": "sleep", "args": ["infinity"]}, None, ""])
def test_a_command_that_only_waits_is_not_started(alice: User, idle: object) -> None:
    assert Sandbox.objects.get(pk=make(PrimeClient(alice), start_command=idle)["id"]).start_command == []


def test_a_shells_command_of_older_releases_is_started_by_one(alice: User) -> None:
    told = make(PrimeClient(alice), start_command="echo a && sleep 1")
    assert Sandbox.objects.get(pk=told["id"]).start_command == ["/bin/sh", "-c", "echo a && sleep 1"]


def test_what_is_larger_than_the_hub_allows_is_as_large_as_it_allows(alice: User) -> None:
    told = make(PrimeClient(alice), cpu_cores=500, memory_gb=4000, disk_size_gb=4000, timeout_minutes=40_000)
    hub = settings.HUB
    assert told["cpuCores"] == hub.sandbox_max_cpus
    assert (told["memoryGB"] * 1024, told["diskSizeGB"] * 1024) == (hub.sandbox_max_memory_mb, hub.sandbox_max_disk_mb)
    assert told["timeoutMinutes"] * 60 == hub.sandbox_max_timeout_s
    assert make(PrimeClient(alice), timeout_minutes=-1)["timeoutMinutes"] * 60 == hub.sandbox_max_timeout_s


def test_the_same_key_makes_one_sandbox(alice: User) -> None:
    prime = PrimeClient(alice)
    first = make(prime, idempotency_key="k")
    assert make(prime, idempotency_key="k")["id"] == first["id"]
    assert make(prime, idempotency_key="l")["id"] != first["id"]
    assert make(PrimeClient(make_user("bob")), idempotency_key="k")["id"] != first["id"]
    assert Sandbox.objects.count() == 3


def test_two_requests_with_one_key_at_once_make_one_sandbox(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    prime = PrimeClient(alice)
    first, found = make(prime, idempotency_key="k"), sandboxes._made
    answers = [lambda *_: None, found]  # the other one commits after this one has looked
    monkeypatch.setattr(sandboxes, "_made", lambda *given: answers.pop(0)(*given))
    assert make(prime, idempotency_key="k")["id"] == first["id"]
    assert (Sandbox.objects.count(), answers) == (1, [])


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"gpu_count": 1}, "no GPU"),
        ({"checkpoint_id": "c"}, "no checkpoints"),
        ({"volumes": [{"name": "v"}]}, "no volumes"),
        ({"arch": "arm64"}, "own processors"),
        ({"docker_image": None}, "docker_image is missing"),
        ({"network_allowlist": ["data.example"]}, "HUB_BOX_ALLOW_HOSTS"),
        ({"environment_vars": {"A=B": "1"}}, "env"),
        ({"memory_gb": "much"}, "memory_gb"),
        ({"labels": "one"}, "labels"),
    ],
)
def test_what_there_is_not_is_refused_in_words(alice: User, asked: dict[str, Any], words: str) -> None:
    response = PrimeClient(alice).call("post", "sandbox", {**WISH, **asked})
    assert response.status_code in (403, 422)
    assert words in response.json()["detail"]
    assert not Sandbox.objects.exists()


def test_too_many_is_told_so_that_clients_try_again(alice: User, settings: Any) -> None:
    settings.HUB = settings.HUB.model_copy(update={"owner_sandboxes": 1})
    make(PrimeClient(alice))
    response = PrimeClient(alice).call("post", "sandbox", WISH)
    assert (response.status_code, "hub sandbox delete" in response.json()["detail"]) == (429, True)


def test_hosts_are_those_ports_that_the_operator_permits(alice: User, settings: Any) -> None:
    settings.HUB = settings.HUB.model_copy(update={"box_allow_hosts": ["data.example:443", "other.example:*"]})
    prime = PrimeClient(alice)
    told = make(prime, network_allowlist=["data.example", "other.example:8080", "127.0.0.1"])
    assert told["networkAllowlist"] == ["data.example:443", "other.example:8080"]
    policy = prime.done("get", f"sandbox/{told['id']}/egress-policy")["policy"]
    assert policy == {"allowlist": ["data.example:443", "other.example:8080"], "denylist": None}


def test_the_list_is_the_callers_or_a_teams_and_can_be_narrowed(alice: User) -> None:
    prime = PrimeClient(alice)
    running = create_running(alice, labels=("a",))
    ended = create_ended(alice, labels=("a", "b"))
    make_owner("lab", members=[alice])
    told = make(prime, team_id="lab")
    assert told["teamId"] == "lab"

    def ids(**query: Any) -> list[str]:
        return [row["id"] for row in prime.done("get", "sandbox", **query)["sandboxes"]]

    mine = [str(ended.pk), str(running.pk)]
    assert ids() == mine
    assert ids(team_id="lab") == [told["id"]]
    assert ids(status="running") == ids(is_active="true") == [str(running.pk)]
    assert ids(status="TIMEOUT") == ids(labels=["a", "b"]) == [str(ended.pk)]
    assert ids(user_id=alice.pk) == mine
    assert ids(user_id=make_user("bob").pk) == ids(user_id="x") == []
    page = prime.done("get", "sandbox", page=2, per_page=1)
    assert ([row["id"] for row in page["sandboxes"]], page["total"], page["hasNext"]) == (mine[1:], 2, False)


def test_statuses_of_many_come_in_their_order_with_what_is_lacking(alice: User) -> None:
    pending, ended = create_pending(alice), create_ended(alice)
    foreign = create_pending(make_user("bob"))
    asked = [str(ended.pk), str(foreign.pk), "x\x00", str(pending.pk)]
    told = PrimeClient(alice).done("post", "sandbox/status:batchGet", {"sandbox_ids": asked})
    assert [(one["sandbox_id"], one["status"]) for one in told["statuses"]] == [
        (str(ended.pk), "TIMEOUT"),
        (str(pending.pk), "PENDING"),
    ]
    assert [(one["sandbox_id"], one["code"]) for one in told["errors"]] == [
        (str(foreign.pk), "NOT_FOUND"),
        ("x", "NOT_FOUND"),
    ]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("image_lacking", "IMAGE_PULL_FAILED"),
        ("worker_lost", "HOST_FAILURE"),
        ("sandbox_failed", "START_FAILED"),
    ],
)
def test_why_one_failed_is_told_as_clients_know_it(alice: User, code: str, kind: str) -> None:
    row = create_running(alice)
    failure = Failure(kind=FailureKind.INFRASTRUCTURE, code=code, message="it [red]failed", hint="try again")
    end_attempt(run=row.run, to=RunState.FAILED, now=timezone.now(), failure=failure)
    told = PrimeClient(alice).done("get", f"sandbox/{row.pk}/error-context")
    assert told == {"status": "ERROR", "errorType": kind, "errorMessage": "it [ red ]failed; try again"}


def test_the_gateway_is_an_address_that_leads_to_its_worker_while_it_lives(alice: User) -> None:
    prime, row = PrimeClient(alice), create_running(alice)
    told = prime.done("post", f"sandbox/{row.pk}/auth")
    token = httpx.URL(told["gateway_url"]).path.split("/")[2]
    place, left_s = clients_behind(token)
    assert place.sandbox_id == row.pk
    assert 3500 < left_s <= 3600
    assert told["gateway_url"].endswith(f"/sandbox-clients/{token}/prime/gateway")
    assert (told["user_ns"], told["job_id"], told["is_vm"]) == ("box", str(row.pk), False)
    assert prime.done("post", f"sandbox/{create_pending(alice).pk}/auth")["gateway_url"]
    refused = prime.call("post", f"sandbox/{create_ended(alice).pk}/auth")
    assert (refused.status_code, "has ended" in refused.json()["detail"]) == (409, True)


def test_a_port_has_an_address(alice: User) -> None:
    prime, row = PrimeClient(alice), create_running(alice)
    told = prime.done("post", f"sandbox/{row.pk}/expose", {"port": 8000, "name": "web", "protocol": "HTTP"})
    assert place_behind(httpx.URL(told["url"]).path.split("/")[2]).port == 8000
    assert prime.call("post", f"sandbox/{row.pk}/expose", {"port": 8000, "protocol": "TCP"}).status_code == 422
    assert prime.done("get", f"sandbox/{row.pk}/expose") == {"exposures": [told]}
    assert prime.done("get", "sandbox/expose/all") == {"exposures": [told]}
    gone = [prime.call("delete", f"sandbox/{row.pk}/expose/{told['exposure_id']}").status_code for _ in range(2)]
    assert gone == [200, 404]
    assert prime.done("get", "sandbox/expose/all") == {"exposures": []}


class Worker(BaseHTTPRequestHandler):
    """Tells the log of its sandbox."""

    def do_GET(self) -> None:
        found = b"begun\xff\n" if self.path == "/log" else b""
        self.send_response(200)
        self.send_header("Content-Length", str(len(found)))
        self.end_headers()
        self.wfile.write(found)


@pytest.fixture
def worker() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Worker) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_its_log_is_its_workers_and_in_the_end_why_it_ended(alice: User, worker: str) -> None:
    prime, row = PrimeClient(alice), create_running(alice, base_url=worker)
    assert prime.done("get", f"sandbox/{row.pk}/logs")["logs"] == "begun\ufffd\n"
    assert "its lifetime was over" in prime.done("get", f"sandbox/{create_ended(alice).pk}/logs")["logs"]


def test_deleting_ends_one_or_those_that_are_named_or_labelled(alice: User) -> None:
    prime = PrimeClient(alice)
    one, two, three, four = (create_pending(alice, labels=("x",)) for _ in range(4))
    foreign = create_pending(make_user("bob"), labels=("x",))
    assert prime.done("delete", f"sandbox/{one.pk}")["id"] == str(one.pk)
    told = prime.done("delete", "sandbox", {"sandbox_ids": [str(two.pk), str(foreign.pk), "none"]})
    assert told["succeeded"] == [str(two.pk)]
    assert [one["sandbox_id"] for one in told["failed"]] == [str(foreign.pk), "none"]
    assert set(prime.done("delete", "sandbox", {"labels": ["x"]})["succeeded"]) == {str(three.pk), str(four.pk)}
    assert prime.call("delete", "sandbox", {}).status_code == 422
    running = create_running(alice)
    prime.done("delete", f"sandbox/{running.pk}")
    assert prime.done("get", f"sandbox/{running.pk}")["status"] == "TERMINATED"
    for query in ({"is_active": "true"}, {"status": "RUNNING"}):
        assert prime.done("get", "sandbox", **query)["sandboxes"] == []
    assert prime.call("post", f"sandbox/{running.pk}/auth").status_code == 409
    states = dict(Sandbox.objects.values_list("pk", "run__state"))
    assert {states[row.pk] for row in (one, two, three, four)} == {"cancelled"}
    assert states[foreign.pk] == "queued"


def test_what_is_not_offered_says_what_is(alice: User) -> None:
    prime, row = PrimeClient(alice), create_pending(alice)
    for path, words in (("ssh-session", "hub sandbox shell"), ("checkpoints", "hub image build")):
        assert words in prime.call("post", f"sandbox/{row.pk}/{path}").json()["detail"]
    assert "hub sandbox serve" in prime.call("post", "tunnel", {"local_port": 80}).json()["detail"]
