from __future__ import annotations

import hashlib

from tests.envhub.cli.conftest import Cli
from tests.factories.evals import create_hosted, make_records, store
from tests.factories.training_runs import create_run


def test_a_link_is_made_listed_and_revoked(cli: Cli) -> None:
    evaluation = create_hosted(cli.user)
    store(evaluation, make_records([1, 0]))
    found = str(evaluation.pk)
    url = cli("share", "create", found, "--days", "1", "--note", "for Bob").stdout.strip()
    path = url[url.index("/shared/") :]
    assert len(path) == len("/shared/") + 43
    one = cli.json("share", "create", found[:24], "--example", "0", "--rollout", "1")["link"]
    assert (one["kind"], one["example"], one["rollout"]) == ("rollout", 0, 1)
    rows = cli.json("share", "list", found)
    assert [(row["kind"], row["note"], row["opened"]) for row in rows] == [
        ("rollout", "", 0),
        ("evaluation", "for Bob", 0),
    ]
    cli("share", "revoke", rows[1]["id"])
    assert [bool(row["revoked_at"]) for row in cli.json("share", "list")] == [False, True]
    assert "at most" in cli("share", "create", found, "--days", "999", code=1).stderr


def test_the_fingerprint_is_the_hash_of_the_settings_that_are_printed(cli: Cli) -> None:
    evaluation = create_hosted(cli.user, env_args={"name": "Zoë"})
    text = cli("eval", "fingerprint", str(evaluation.pk), "--settings").stdout
    digest = hashlib.sha256(text.encode()).hexdigest()
    assert cli("eval", "fingerprint", str(evaluation.pk)).stdout.strip() == digest
    training = create_run(cli.user)
    assert cli.json("train", "fingerprint", str(training.pk))["settings"]["model"] == "base"
