"""`hub sandbox` on a hub without a worker; with one: tests/e2e/test_user_sandboxes.py."""

from __future__ import annotations

import pytest

from hub.sandboxes.models import Sandbox
from tests.envhub.cli.conftest import Cli
from tests.factories.sandboxes import create_ended, create_running

pytestmark = pytest.mark.django_db
ABSENT = "01a20f37-5266-7130-9153-28a7d5490a25"


def test_what_is_asked_for_arrives(cli: Cli) -> None:
    options = ("--image", "python:3.11-slim", "--cpus", "2", "--memory", "512", "--idle", "60", "-e", "A=b=c")
    made = cli.json("sandbox", "create", "--no-wait", "--label", "x", "--network", "none", *options)
    row = Sandbox.objects.get(pk=made["id"])
    assert (row.image, row.cpus, row.memory_mb, row.idle_s) == ("python:3.11-slim", 2.0, 512, 60.0)
    assert (made["labels"], made["variables"], made["allow_hosts"]) == (["x"], ["A"], [])
    assert cli.json("sandbox", "list", "--label", "x")[0]["id"] == made["id"]


@pytest.mark.parametrize(
    ("arguments", "words", "code"),
    [
        (("create", "--env", "A"), "--env NAME=VALUE", 2),
        (("create", "--memory", "1"), "memory_mb", 2),
        (("create", "--network", "example.com:1"), "HUB_BOX_ALLOW_HOSTS", 1),
        (("create", "--cpus", "64"), "HUB_SANDBOX_MAX_CPUS", 1),
        (("exec", "nonsense", "--", "ls"), "hub sandbox list", 2),
        (("show", ABSENT), "hub sandbox list", 1),
        (("shell", ABSENT), "terminal", 2),
        (("upload", ABSENT, __file__, "relative"), "absolute", 2),
    ],
)
def test_a_mistake_is_told_with_what_to_do(cli: Cli, arguments: tuple[str, ...], words: str, code: int) -> None:
    assert words in cli("sandbox", *arguments, code=code).stderr


def test_one_that_fails_to_start_says_why_instead_of_waiting(cli: Cli) -> None:
    ended = create_ended(cli.user)
    result = cli("sandbox", "exec", str(ended.pk), "--", "ls", code=1)
    assert "its lifetime was over" in result.stderr


def test_deleting_ends_several(cli: Cli) -> None:
    ids = [str(create_running(cli.user).pk) for _ in range(2)]
    assert "Pass --yes" in cli("sandbox", "delete", ids[0], stdin="y\n", code=2).stderr
    assert cli.json("sandbox", "delete", "--yes", *ids) == {"deleted": ids}
    assert all(Sandbox.objects.get(pk=one).run.cancel_requested_at for one in ids)


def test_ports_are_opened_listed_and_closed(cli: Cli) -> None:
    sandbox = str(create_running(cli.user).pk)
    assert "/sandbox-ports/" in cli("sandbox", "ports", sandbox, "8080", "--name", "notebook").stdout
    cli("sandbox", "ports", sandbox, "9000")
    assert [(item["port"], item["name"]) for item in cli.json("sandbox", "ports", sandbox)] == [
        (8080, "notebook"),
        (9000, ""),
    ]
    assert "1 of its addresses" in cli("sandbox", "ports", sandbox, "8080", "--close").stderr
    assert [item["port"] for item in cli.json("sandbox", "ports", sandbox)] == [9000]
    assert "port 8080 is not open" in cli("sandbox", "ports", sandbox, "8080", "--close", code=2).stderr
    assert "needs a port" in cli("sandbox", "ports", sandbox, "--close", code=2).stderr
