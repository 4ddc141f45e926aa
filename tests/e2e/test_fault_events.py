"""What is killed while folders are packed, rollouts replayed and ends of runs told: all ends right, and is told once.

A webhook's message may come again when its sender was killed before it heard the answer, under the same id.
"""

from __future__ import annotations

import re
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count, cycle
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from envhub.protocol.accounts.notices import ScoreWatchRequest
from envhub.protocol.accounts.webhooks import CHOICES, WebhookRequest
from envhub.protocol.evals.evaluations import EvaluationConfig, EvaluationView
from envhub.protocol.evals.replays import Replay
from envhub.protocol.registry.packages import VersionState
from envhub.protocol.runs import RunState

from infra.demo.processes import Role, kill
from tests.e2e import reversing
from tests.e2e.breakable import Breakable, breakable_production
from tests.e2e.fault_work import FREE, HELD
from tests.e2e.package_runs import counts
from tests.e2e.stack import ROOT, USER, wait_until
from tests.fakes.policy_endpoint import PolicyEndpoint
from tests.fakes.postgres_server import programs
from tests.fakes.webhook_receiver import WebhookReceiver, webhook_receiver

pytestmark = [
    pytest.mark.matrix,
    pytest.mark.verifiers,
    pytest.mark.sandbox,
    pytest.mark.skipif(programs() is None, reason="Postgres is not installed here"),
]
TURNS = 4  # of guess-number, for a model that never guesses right
SENT_AGAIN_S = 180.0  # a message whose sender was killed waits a minute for its answer
_releases = count(1)


@dataclass
class Site:
    """An installation, who is told, and what has been told before."""

    hub: Breakable
    receiver: WebhookReceiver
    guessing: str  # an environment of several turns
    before: EvaluationView  # of it, with a rollout that is replayed
    browser: httpx.Client
    told: Counter[str] = field(default_factory=Counter)
    heard: set[str] = field(default_factory=set)

    def upload(self, folder: Path) -> str:
        """guess-number's folder as another version; the run that packs it."""
        package = folder / "guess-number"
        shutil.copytree(ROOT / "environments" / "guess-number", package, ignore=shutil.ignore_patterns("tests"))
        project = package / "pyproject.toml"
        fresh = f'version = "1.{next(_releases)}.0"'
        project.write_text(re.sub(r'^version = ".*"$', fresh, project.read_text(), flags=re.MULTILINE))
        archive = Path(shutil.make_archive(str(folder / "upload"), "zip", folder, "guess-number"))
        form = {"owner": USER, "csrfmiddlewaretoken": self.browser.cookies["csrftoken"]}
        page = f"{self.hub.url}/environments/new"
        reply = self.browser.post(
            page, data=form, files={"files": ("upload.zip", archive.read_bytes())}, headers={"Referer": page}
        )
        found = re.match(r"/runs/([0-9a-f-]+)", reply.headers.get("location", ""))
        assert found is not None, (reply.status_code, reply.text[:2000])
        return found[1]

    def replay(self, latency_s: float) -> EvaluationView:
        """Half of a rollout's calls again, then slow ones."""
        model = self.hub.register(PolicyEndpoint(answer=counts, latency_s=latency_s))
        told = Replay(evaluation=self.before.id, example=0, rollout=0, calls=TURNS // 2)
        fields = {"environment": self.guessing, "rollouts_per_example": 8, "concurrency": 2, "max_retries": 5}
        return self.hub.evaluate(EvaluationConfig.model_validate({**fields, "model": model, "replay": told}))

    def fresh_notices(self) -> Counter[str]:
        """What the user was told since this was asked last."""
        with self.hub.client() as client:
            every = Counter(f"{notice.kind.value} {notice.url}" for notice in client.notices.list())
        fresh, self.told = every - self.told, every
        return fresh

    def fresh_messages(self) -> Counter[str]:
        """What webhooks have told since this was asked last, each id once."""
        bodies = {key: body for key, body in self.receiver.bodies().items() if key not in self.heard}
        self.heard |= bodies.keys()
        return Counter(f"{body['type']} {body['data']['id']}" for body in bodies.values())

    def waiting_messages(self) -> int:
        """How many are still to be delivered."""
        return self.number("SELECT count(*) FROM webhooks_delivery WHERE state <> 'delivered'")

    def number(self, query: str, *values: object) -> int:
        """One number of the database."""
        with psycopg.connect(self.hub.databases.primary.url, autocommit=True) as rows:
            found: Any = rows.execute(query, values).fetchone()
        return -1 if found is None or found[0] is None else int(found[0])

    def check_nothing_is_held(self) -> None:
        """No run is open, no slot is lost, no message is under way."""
        wait_until(lambda: self.number(HELD) == 0, 240, lambda: f"runs are stuck:\n{self.hub.log_tail()}")
        wait_until(lambda: self.number(FREE, ["build", "eval"]) == 1, 60, lambda: "a slot is lost")
        wait_until(lambda: self.waiting_messages() == 0, SENT_AGAIN_S, lambda: "a webhook's message is lost")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with breakable_production(tmp_path_factory.mktemp("site")) as hub, webhook_receiver() as receiver:
        pushed = hub.wait_ready(hub.push(ROOT / "environments" / "guess-number"))
        guessing = f"{pushed.owner}/{pushed.name}"
        model = hub.register(PolicyEndpoint(answer=counts))
        config = EvaluationConfig(environment=guessing, model=model, num_examples=1, rollouts_per_example=1)
        before = hub.finished(hub.evaluate(config).id)
        assert before.summary.scored == 1
        with hub.client() as client:
            client.webhooks.create(WebhookRequest(url=receiver.url, events=CHOICES))
        browser = httpx.Client(timeout=60)
        link = hub.manage("login_link", USER).splitlines()[-1]
        form = {"csrfmiddlewaretoken": browser.get(link).cookies["csrftoken"]}
        browser.post(link, data=form, headers={"Referer": link}, follow_redirects=True)
        page = browser.get(f"{hub.url}/environments/new", follow_redirects=True)
        assert "csrftoken" in browser.cookies, page.text[:2000]
        made = Site(hub, receiver, guessing, before, browser)
        made.fresh_notices()
        yield made
        browser.close()


def all_answer(hub: Breakable) -> bool:
    """Whether both hubs do."""
    with suppress(httpx.HTTPError):
        return all(httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=5).is_success for port in hub.hub_ports)
    return False


def killing(role: Role) -> Callable[[Breakable], None]:
    def strike(hub: Breakable) -> None:
        wait_until(lambda: bool(kill(hub.pids(role)[:1])), 60, lambda: f"there is no {role}", 0.1)
        if role not in (Role.EVAL_RUN, Role.BUILD_RUN):  # their worker makes another child
            hub.revive()

    return strike


@pytest.mark.parametrize(
    "role", [Role.BUILD_RUN, Role.EVAL_RUN, Role.RUNNER, Role.HOST, Role.WORKER, Role.WEB, Role.SWEEPER]
)
def test_a_folder_that_is_packed_and_a_replay_survive_it(site: Site, tmp_path: Path, role: Role) -> None:
    hub = site.hub
    replay = site.replay(latency_s=3.0)
    reversing.await_stored(hub, replay.id)
    packing = site.upload(tmp_path)
    wait_until(lambda: bool(hub.pids(Role.BUILD_RUN)), 60, lambda: "nobody packs it", 0.05)
    if role is Role.RUNNER or role is Role.HOST:
        kill(hub.pids(role)[:1])
    else:
        killing(role)(hub)

    view = hub.finished(replay.id)
    assert view.state is RunState.SUCCEEDED, hub.run_log(view.run_id or "")[-3000:]
    rows = hub.rollouts(replay.id)
    assert Counter((row.example, row.rollout) for row in rows) == Counter((0, number) for number in range(8))
    assert {(row.reward, row.turns) for row in rows} == {(hub.rollouts(site.before.id)[0].reward, TURNS)}
    packed = hub.wait_run(packing)
    assert packed.state is RunState.SUCCEEDED, hub.run_log(packing)[-3000:]
    with hub.client() as client:
        version = client.environments.version(site.guessing, packed.subject_url.rpartition("/")[2])
    built = hub.wait_ready(version)
    assert built.state is VersionState.READY, built.failure
    site.check_nothing_is_held()
    assert site.fresh_notices() == Counter([f"finished /evaluations/{replay.id}", f"finished {packed.subject_url}"])
    assert site.fresh_messages() == Counter(
        [f"evaluation.finished {replay.run_id}", f"version.ready {built.build_run_id}"]
    )


def test_ends_are_told_once_while_hubs_and_sweepers_die_all_the_time(site: Site, tmp_path: Path) -> None:
    hub = site.hub
    environment = reversing.push_reverse_text(hub)
    with hub.client() as client:
        client.notices.watch(environment, ScoreWatchRequest(below=0.5, above=0.9))
    site.check_nothing_is_held()
    site.fresh_notices(), site.fresh_messages()
    model = hub.register(reversing.slow_endpoint(0.2))
    size = {"num_examples": 2, "rollouts_per_example": 1, "max_retries": 5}
    started = [reversing.start(hub, environment, model, **size) for _ in range(12)]
    victims = cycle([Role.WEB, Role.SWEEPER])
    while site.number(HELD):
        kill(hub.pids(next(victims))[:1])
        hub.revive()
        wait_until(lambda: all_answer(hub), 120, hub.log_tail)
        time.sleep(1)
    assert {hub.finished(one.id).state for one in started} == {RunState.SUCCEEDED}
    site.check_nothing_is_held()
    pages = [f"/evaluations/{one.id}" for one in started]
    assert site.fresh_notices() == Counter(f"{kind} {page}" for kind in ("finished", "score") for page in pages)
    assert site.fresh_messages() == Counter(f"evaluation.finished {one.run_id}" for one in started)
