"""An environment is given away under an evaluation and a push; a model is deployed; processes are killed meanwhile."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from envhub.errors import Conflict
from envhub.protocol.accounts.teams import TeamRequest
from envhub.protocol.models.deployments import DeploymentRequest
from envhub.protocol.registry.packages import MoveRequest, VersionState
from envhub.protocol.runs import RunState

from infra.demo.processes import Role, kill
from tests.e2e import reversing
from tests.e2e.breakable import Breakable, breakable_production
from tests.e2e.stack import ROOT, USER, wait_until
from tests.fakes.postgres_server import programs
from tests.workers.training.runs.trainings import tiny_model

pytestmark = [
    pytest.mark.matrix,
    pytest.mark.verifiers,
    pytest.mark.torch,
    pytest.mark.sandbox,
    pytest.mark.skipif(programs() is None, reason="Postgres is not installed here"),
]
AWAY = MoveRequest(owner="lab", name="backwards")
BACK = MoveRequest(owner=USER, name="reverse-text")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Breakable]:
    with breakable_production(tmp_path_factory.mktemp("site")) as running:
        with running.client() as hub:
            hub.teams.create(TeamRequest(name="lab"))
        yield running


@pytest.fixture(scope="module")
def environment(site: Breakable) -> str:
    return reversing.push_reverse_text(site)


def strike(site: Breakable, role: Role) -> None:
    wait_until(lambda: bool(kill(site.pids(role)[:1])), 60, lambda: f"there is no {role}", 0.1)
    if role in (Role.WEB, Role.WORKER, Role.SWEEPER):
        site.revive()


@pytest.mark.parametrize("role", [Role.EVAL_RUN, Role.WORKER, Role.WEB])
def test_an_evaluation_ends_right_though_its_environment_is_given_away(
    site: Breakable, environment: str, tmp_path: Path, role: Role
) -> None:
    model = site.register(reversing.slow_endpoint(0.8))
    evaluation = reversing.start(site, environment, model, max_retries=5)
    reversing.await_stored(site, evaluation.id)
    with site.client() as hub:
        hub.environments.move(environment, AWAY)
        strike(site, role)
        reversing.check_complete(site, site.finished(evaluation.id), tmp_path)
        assert hub.evaluations.get(evaluation.id).environment == "lab/backwards"
        hub.environments.move("lab/backwards", BACK)


@pytest.mark.parametrize("pause_s", [0.0, 1.0, 2.0, 4.0])
def test_a_push_meets_a_transfer_and_one_of_them_says_so(
    site: Breakable, environment: str, tmp_path: Path, pause_s: float
) -> None:
    package = tmp_path / "reverse-text"
    shutil.copytree(ROOT / "environments" / "reverse-text", package)
    push = site.start_cli("push", str(package), "--bump", "patch", "--no-wait", "--json")
    time.sleep(pause_s)
    with site.client() as hub:
        refused = ""
        try:
            hub.environments.move(environment, AWAY)
        except Conflict as error:
            refused = error.code
        said = push.communicate(timeout=120)
        assert refused in ("", "busy")
        now = environment if refused else "lab/backwards"
        newest = hub.environments.version(now)
        if push.returncode == 0:
            newest = site.wait_ready(newest)
        assert (newest.state, newest.owner) == (VersionState.READY, now.partition("/")[0]), said
        assert push.returncode == 0 or (not refused and "has moved to lab/backwards" in said[1]), said
        if not refused:
            hub.environments.move(now, BACK)


@pytest.fixture(scope="module")
def local_model(site: Breakable) -> str:
    site.cli("model", "import-dir", "tiny", str(tiny_model()), "--engine", "torch")
    return f"{USER}/tiny"


@pytest.mark.parametrize("role", [Role.HOST, Role.WORKER, Role.WEB, Role.SWEEPER])
def test_a_deployment_whose_start_is_disturbed_answers_in_the_end(
    site: Breakable, local_model: str, role: Role
) -> None:
    body = {"model": local_model, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 4}

    def answers() -> bool:
        call = {"json": body, "headers": {"Authorization": f"Bearer {site.token}"}, "timeout": 30}
        try:
            return httpx.post(f"{site.url}/inference/v1/chat/completions", **call).status_code == 200
        except httpx.HTTPError:
            return False

    with site.client() as hub:
        made = hub.deployments.create(DeploymentRequest(model=local_model, engine="torch"))
        wait_until(lambda: hub.deployments.get(made.id).state is RunState.RUNNING, 120, site.log_tail, 0.1)
        strike(site, role)
        wait_until(answers, 180, lambda: f"{hub.deployments.get(made.id)}\n{site.log_tail()}", 1.0)
        hub.deployments.delete(made.id)
        wait_until(lambda: hub.runs.get(made.run_id or "").state.is_final, 60, site.log_tail)
