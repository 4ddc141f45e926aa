"""`hub env check`: what is given is kept, the run is followed, and the exit code says whether all is well."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from envhub.client.runs import Runs
from envhub.protocol.registry.builds import BuildReport
from envhub.protocol.registry.needs import Need, NeedKind
from envhub.protocol.runs import FailureKind, RunState

from hub.registry.models import Version
from hub.registry.services import store_build_report
from hub.runs.models import Run
from hub.secrets.services import set_secret
from tests.envhub.cli.conftest import Cli
from tests.factories.registry import create_needing_version
from tests.hub.registry.test_builds import BAD
from tests.hub.registry.test_rechecks import PASSED, end, hold

KEY = Need(kind=NeedKind.SECRET, name="API_KEY", detail="os.environ lacks it")
Script = Any


@pytest.fixture
def version(cli: Cli) -> Version:
    version = create_needing_version(KEY, user=cli.user)
    Run.objects.update(state=RunState.SUCCEEDED.value)
    set_secret(owner=cli.user.owner, name="API_KEY", value="hunter22", user=cli.user)
    return version


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Script:
    """Says what a worker reports, as soon as the command watches the run."""
    reports: list[Any] = []
    watch = Runs.watch

    def watched(self: Runs, run_id: str, **options: Any) -> Iterator[Any]:
        run, _ = hold(Version.objects.get())
        body, failure = reports.pop(0)
        store_build_report(run=run, report=BuildReport.model_validate(body))
        end(run, failure)
        yield from watch(self, run_id, **options)

    monkeypatch.setattr(Runs, "watch", watched)
    return lambda failure=None, **body: reports.append((body, failure))


def test_what_is_given_is_kept_and_the_card_turns_green(cli: Cli, version: Version, worker: Script) -> None:
    worker(checks=PASSED)
    said = cli("env", "check", "tiny-env", "--secret", "API_KEY", "--env-args", '{"n": 2}').stdout
    assert "ready alice/tiny-env@0.1.0" in said
    assert "ok   load: ToolEnv" in said
    assert "its checks are given secret API_KEY: each run must bring the same" in said
    version.refresh_from_db()
    assert version.check_settings["secrets"] == ["API_KEY"]
    assert version.check_settings["env_args"] == {"n": 2}


def test_reset_discards_what_earlier_checks_were_given(cli: Cli, version: Version, worker: Script) -> None:
    for options in (("--env-args", '{"n": 2}'), ("--reset", "--secret", "API_KEY")):
        worker(checks=PASSED)
        cli("env", "check", "tiny-env", *options)
    version.refresh_from_db()
    assert version.check_settings.get("env_args", {}) == {}
    assert version.check_settings["secrets"] == ["API_KEY"]


def test_what_is_still_needed_is_exit_1_with_its_command(cli: Cli, version: Version, worker: Script) -> None:
    worker(checks=version.checks)
    said = cli("env", "check", "tiny-env", code=1).stdout
    assert "need load: it could not be loaded" in said
    assert "secret API_KEY: os.environ lacks it" in said
    assert "hub secret set API_KEY && hub env check alice/tiny-env@0.1.0 --secret API_KEY" in said


def test_checks_that_could_not_be_run_are_an_error(cli: Cli, version: Version, worker: Script) -> None:
    worker(failure=BAD.model_copy(update={"kind": FailureKind.ENVIRONMENT}), checks=[])
    assert "the checks were not run: no module named x" in cli("env", "check", "tiny-env", code=1).stderr


def test_a_secret_that_is_not_stored_is_named(cli: Cli, version: Version) -> None:
    assert "alice has no secret GONE" in cli("env", "check", "tiny-env", "--secret", "GONE", code=1).stderr


def test_a_wrong_value_is_a_wrong_command_line(cli: Cli, version: Version) -> None:
    assert "--env-args is not JSON" in cli("env", "check", "tiny-env", "--env-args", "{", code=2).stderr
    assert "is not a judge" in cli("env", "check", "tiny-env", "--judge", "gpt", code=2).stderr


def test_without_waiting_the_run_is_only_queued(cli: Cli, version: Version) -> None:
    view = cli.json("env", "check", "tiny-env", "--no-wait")
    assert Run.objects.get(pk=view["check_run_id"]).state == "queued"


def test_a_refused_evaluation_names_each_need_and_its_command(cli: Cli, version: Version) -> None:
    said = cli("eval", "run", "tiny-env", "-m", "hub/none", code=1).stderr
    assert "alice/tiny-env@0.1.0 needs secret API_KEY" in said
    assert "`--secret API_KEY`" in said
