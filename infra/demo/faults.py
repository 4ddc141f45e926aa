"""The short demo's fault drill: one evaluation, and kill -9 of each kind of process meanwhile; nothing may be lost."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import suppress

from envhub.client import HubClient
from envhub.errors import ConnectionFailed, ServerError
from envhub.protocol.evals.evaluations import EvaluationConfig, EvaluationView
from envhub.protocol.evals.rollouts import Outcome
from envhub.protocol.runs import RunState

from infra.demo.hub import DemoFailed, Hub
from infra.demo.processes import Role, find, kill
from infra.demo.steps import MODEL, Say

# A killed process of a run is noticed when its lease ends: the drill does not wait half a minute each time for that.
SETTINGS = {"HUB_LEASE_SECONDS": "5", "HUB_RETRY_SECONDS": "0.5", "HUB_MAX_ATTEMPTS": "8"}
VICTIMS = (Role.RUNNER, Role.EVAL_RUN, Role.HOST, Role.WORKER, Role.WEB)
EXAMPLES, ROLLOUTS = 120, 4
PATIENCE_S = 240.0


def drill(hub: Hub, token: str, environment: str, say: Say) -> None:
    """Evaluate `environment` (owner/name@version) while killing; then count. Raises DemoFailed."""
    config = EvaluationConfig(
        environment=environment,
        model=MODEL,
        num_examples=EXAMPLES,
        rollouts_per_example=ROLLOUTS,
        concurrency=4,
        max_retries=5,
        seed=1,
    )
    with HubClient(hub.url, token) as client:
        evaluation = client.evaluations.create(config)
        stored = 0
        for role in VICTIMS:
            stored = _await_more(client, evaluation.id, stored)
            killed = kill(find(hub.data, role))
            if not killed:
                raise DemoFailed(f"there was no {role} to kill")
            say(f"  {stored}/{EXAMPLES * ROLLOUTS}: killed the {role} (kill -9 {' '.join(map(str, killed))})")
        _await_end(client, evaluation.id)
        _verify(client, evaluation.id)
    say(f"  {EXAMPLES * ROLLOUTS} rollouts planned, {EXAMPLES * ROLLOUTS} there, each once, all of them scored")


def _await_more(client: HubClient, evaluation_id: str, stored: int) -> int:
    """Wait until more than `stored` rollouts are there; how many are. Raises DemoFailed."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        evaluation = client.evaluations.get(evaluation_id)
        if evaluation.state.is_final:
            raise DemoFailed(f"the evaluation {evaluation.state} before everything was killed")
        if evaluation.summary.stored > stored:
            return evaluation.summary.stored
        time.sleep(0.2)
    raise DemoFailed("the evaluation did not go on after a kill")


def _await_end(client: HubClient, evaluation_id: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        with suppress(ConnectionFailed, ServerError):  # the hub is just being restarted
            if client.evaluations.get(evaluation_id).state.is_final:
                return
        time.sleep(0.5)
    raise DemoFailed("the evaluation did not end after the kills")


def _verify(client: HubClient, evaluation_id: str) -> None:
    """Raises DemoFailed when a rollout is missing, doubled or counts as failed."""
    evaluation: EvaluationView = client.evaluations.get(evaluation_id)
    rows = list(client.evaluations.rollouts(evaluation_id))
    counted = Counter((row.example, row.rollout) for row in rows)
    wanted = {(example, rollout) for example in range(EXAMPLES) for rollout in range(ROLLOUTS)}
    doubled = [key for key, number in counted.items() if number > 1]
    failed = [row for row in rows if row.outcome is Outcome.FAILED]
    if evaluation.state is not RunState.SUCCEEDED or set(counted) != wanted or doubled or failed:
        raise DemoFailed(
            f"after the kills the evaluation {evaluation.state}: {len(wanted - set(counted))} rollouts missing, "
            f"{len(doubled)} doubled, {len(failed)} failed ({failed[0].failure_message if failed else ''})"
        )
