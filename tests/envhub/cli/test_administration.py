"""`hub worker ...` and `hub user ...` against the real API."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from envhub.cli.administration.workers import cluster_of
from envhub.protocol.accounts.users import Scope
from envhub.protocol.placing.clusters import ClusterFacts
from envhub.protocol.runs import RunState, WorkerFacts, WorkerView

from tests.envhub.cli.conftest import Cli, MakeCli
from tests.factories.accounts import make_token, make_user
from tests.factories.runs import make_run, make_worker, make_worker_token

pytestmark = pytest.mark.django_db


def administrator(make_cli: MakeCli) -> Cli:
    cli = make_cli(make_user("root-user", is_superuser=True))
    cli.environ["HUB_TOKEN"] = make_token(cli.user, Scope.READ, Scope.WRITE, Scope.ADMIN)
    return cli


def test_workers_are_listed_and_revoked(make_cli: MakeCli) -> None:
    hub = administrator(make_cli)
    worker = make_worker(make_worker_token()[1])
    assert worker.name in hub("worker", "list").stdout
    hub("worker", "revoke", str(worker.pk))
    assert [item["revoked"] for item in hub.json("worker", "list")] == [True]


def test_a_worker_is_shown_with_the_runs_that_it_holds(make_cli: MakeCli) -> None:
    hub = administrator(make_cli)
    worker = make_worker(make_worker_token()[1])
    assert "it holds no runs" in hub("worker", "show", str(worker.pk)[:12]).output
    run = make_run(created_by=hub.user, state=RunState.RUNNING, worker=worker)
    said = hub("worker", "show", str(worker.pk)).stdout
    assert worker.name in said
    assert str(run.pk)[:8] in said
    assert [held["id"] for held in hub.json("worker", "show", str(worker.pk))["runs"]] == [str(run.pk)]


def test_a_worker_token_is_made(make_cli: MakeCli) -> None:
    hub = administrator(make_cli)
    assert hub("worker", "token", "builder", "--queue", "build").stdout.startswith("hubw_")


def test_a_user_is_invited_and_listed(make_cli: MakeCli) -> None:
    hub = administrator(make_cli)
    assert "/invitation/" in hub("user", "invite", "ada").stdout
    assert {user["name"]: user["invited"] for user in hub.json("user", "list")}["ada"] is True


def test_nobody_else_may(make_cli: MakeCli) -> None:
    hub = make_cli(make_user("bob"))
    for command in (("worker", "list"), ("worker", "show", "0" * 8), ("user", "list"), ("user", "invite", "ada")):
        hub(*command, code=1)


@pytest.mark.parametrize("command", [("user", "list"), ("data", "delete", "openai/gsm8k", "--yes")])
def test_an_administrators_ordinary_token_is_told_what_it_lacks(make_cli: MakeCli, command: tuple[str, ...]) -> None:
    said = make_cli(make_user("root-user", is_superuser=True))(*command, code=1).output
    assert "scope admin" in said
    assert "/settings/tokens" in said


def test_a_user_is_disabled_and_enabled(make_cli: MakeCli) -> None:
    hub, bob = administrator(make_cli), make_cli(make_user("bob"))
    assert hub("user", "disable", "bob").stdout == "bob is disabled\n"
    assert "not valid" in bob("whoami", code=1).output
    assert hub.json("user", "enable", "bob")["is_active"] is True
    bob("whoami")


def test_who_cannot_be_disabled_is_explained(make_cli: MakeCli) -> None:
    hub = administrator(make_cli)
    assert "yourself" in hub("user", "disable", "root-user", code=1).output
    assert "the user nobody does not exist" in hub("user", "disable", "nobody", code=1).output
    make_cli(make_user("bob"))("user", "disable", "root-user", code=1)


def test_a_workers_cluster_is_said_in_its_line() -> None:
    def said(**cluster: Any) -> str:
        now = datetime.now(UTC)
        facts = WorkerFacts(cluster=ClusterFacts.model_validate(cluster) if cluster else None)
        seen: dict[str, Any] = {"online": True, "revoked": False, "joined_at": now, "seen_at": now, "token": "t"}
        worker = WorkerView(id="w", name="w", hostname="h", queues=(), slots={}, sandbox="bwrap", facts=facts, **seen)
        return cluster_of(worker)

    assert said() == ""
    two = [{"name": "a", "gpus": [81_559, 81_559]}, {"name": "b", "gpus": [81_559]}]
    assert said(hosts=two) == "2 hosts, 3 x 80 GB"
    assert said(hosts=[{"name": "a", "gpus": [0]}]) == "1 host, 1 GPUs"
    assert said(hosts=[{"name": "a"}, {"name": "b"}]) == "2 hosts"
    assert said(problem="cluster unreachable") == "cluster unreachable"


def test_the_audit_log_is_listed_and_exported_by_who_may_see_it(make_cli: MakeCli, tmp_path: Path) -> None:
    hub, bob = administrator(make_cli), make_cli(make_user("bob"))
    hub("user", "invite", "ada")
    (entry,) = hub.json("audit", "list")
    assert (entry["actor"], entry["subject"]) == ("root-user", "ada")
    hub("audit", "export", str(tmp_path / "log.jsonl"))
    assert [json.loads(line)["id"] for line in (tmp_path / "log.jsonl").read_text().splitlines()] == [entry["id"]]
    assert bob.json("audit", "list") == []
    bob("audit", "list", "--owner", "root-user", code=1)


def test_the_log_is_narrowed_by_who_and_when(cli: Cli) -> None:
    cli("secret", "set", "KEY", stdin="value")
    cli("team", "create", "acme")
    found = cli.json("audit", "list", "--actor", "alice", "--action", "set a secret", "--since", "2026-01-01")
    assert [entry["action"] for entry in found] == ["set a secret"]
    assert cli.json("audit", "list", "--until", "2020-01-01") == []
    assert "since is not a time" in cli("audit", "list", "--since", "yesterday", code=1).stderr


def test_a_token_for_one_owner_is_listed_as_such_and_acts_for_no_other(cli: Cli) -> None:
    cli("team", "create", "acme")
    secret = cli("token", "create", "ci", "--team", "acme").stdout.strip()
    assert [one["owner"] for one in cli.json("token", "list")] == ["acme", None]
    cli.environ |= {"HUB_TOKEN": secret, "HUB_OWNER": "acme"}
    cli("secret", "set", "KEY", stdin="value")
    assert (
        "alice does not exist or is not yours"
        in cli("secret", "set", "KEY", "--owner", "alice", stdin="x", code=1).stderr
    )
    assert "single owner only" in cli("token", "list", code=1).stderr
