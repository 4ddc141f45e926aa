"""An evaluation of environments/reverse-text that lasts a few seconds, and what must be true of it afterwards."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from envhub.protocol.evals.evaluations import EvaluationConfig, EvaluationView
from envhub.protocol.evals.rollouts import Outcome
from envhub.protocol.registry.packages import VersionState
from envhub.protocol.runs import RunState

from infra.demo.processes import Role
from tests.e2e.stack import ROOT, USER, Stack, wait_until
from tests.fakes.policy_endpoint import Body, PolicyEndpoint

EXAMPLES, ROLLOUTS = 30, 4
TOTAL = EXAMPLES * ROLLOUTS


def push_reverse_text(stack: Stack) -> str:
    """The environment's name, ready."""
    version = stack.wait_ready(stack.push(ROOT / "environments" / "reverse-text"))
    assert version.state is VersionState.READY, version.failure
    return f"{version.owner}/{version.name}"


def right_answer(body: Body) -> str:
    """What a good model says."""
    return str(body["messages"][-1]["content"]).removeprefix("reverse: ")[::-1]


def slow_endpoint(latency_s: float = 0.4) -> PolicyEndpoint:
    """Right answers, slowly: about 20 rollouts a second at concurrency 8."""
    return PolicyEndpoint(answer=right_answer, latency_s=latency_s)


def start(stack: Stack, environment: str, model: str, **changes: Any) -> EvaluationView:
    """Queue the evaluation."""
    config = {
        "environment": environment,
        "model": model,
        "num_examples": EXAMPLES,
        "rollouts_per_example": ROLLOUTS,
        "env_args": {"length": 8},  # so that no two examples are alike
        "concurrency": 8,
        "timeout_s": 120,
    }
    assert environment.startswith(f"{USER}/")
    return stack.evaluate(EvaluationConfig.model_validate(config | changes))


def await_stored(stack: Stack, evaluation_id: str, beyond: int = 0) -> int:
    """Wait until more than `beyond` rollouts are stored; how many are."""
    with stack.client() as hub:

        def stored() -> int:
            return hub.evaluations.get(evaluation_id).summary.stored

        wait_until(lambda: stored() > beyond, 180, lambda: f"nothing stored beyond {beyond}:\n{stack.log_tail()}", 0.1)
        return stored()


def was_spread(stack: Stack, evaluation_id: str) -> bool:
    """Whether more than its own run has worked on it."""
    asked = f"print(Run.objects.filter(parent__evaluation={evaluation_id!r}, attempt__gt=0).exists())"
    return stack.manage("shell", "-c", f"from hub.runs.models import Run; {asked}").endswith("True")


def check_complete(stack: Stack, view: EvaluationView, folder: Path) -> None:
    """Every planned rollout is there once, of its own example, scored by its right answer."""
    assert view.state is RunState.SUCCEEDED, stack.run_log(view.run_id or "")[-3000:]
    rows = stack.rollouts(view.id)
    examples, each = view.config["num_examples"], view.config["rollouts_per_example"]
    planned = {(example, rollout) for example in range(examples) for rollout in range(each)}
    assert Counter((row.example, row.rollout) for row in rows) == Counter(planned)
    assert {(row.outcome, row.reward) for row in rows} == {(Outcome.OK, 1.0)}
    assert view.summary.stored == view.summary.planned == view.summary.scored == len(planned)
    check_examples(stack, view.id, folder)


def check_examples(stack: Stack, evaluation_id: str, folder: Path) -> None:
    """The stored files hold the same: each example has one question, and no two examples have the same."""
    with stack.client() as hub:
        path = hub.evaluations.export(evaluation_id, folder / f"{evaluation_id}.jsonl", format="jsonl")
    questions: dict[int, set[str]] = {}
    seen: Counter[tuple[int, int]] = Counter()
    for line in path.read_text().splitlines():
        record = json.loads(line)
        seen[record["example"], record["rollout"]] += 1
        questions.setdefault(record["example"], set()).add(json.dumps(record["prompt"]))
    assert set(seen.values()) <= {1}
    assert all(len(found) == 1 for found in questions.values())
    assert len(set().union(*questions.values())) == len(questions)


def never_scored_zero(stack: Stack, evaluation_id: str, is_right: Callable[[float], bool] = lambda r: r == 1.0) -> None:
    """What the infrastructure broke has no reward."""
    for row in stack.rollouts(evaluation_id):
        assert row.reward is None if row.outcome is Outcome.FAILED else is_right(row.reward or 0.0), row


def cancel_and_resume(stack: Stack, environment: str, folder: Path) -> None:
    """A cancelled evaluation keeps what is stored, leaves no box, and can be finished."""
    evaluation = start(stack, environment, stack.register(slow_endpoint(1.0)))
    stored = await_stored(stack, evaluation.id)
    run_id = evaluation.run_id or ""
    with stack.client() as hub:
        hub.runs.cancel(run_id)
        wait_until(lambda: hub.runs.get(run_id).state.is_final, 20, stack.log_tail, 0.05)
        assert hub.runs.get(run_id).state is RunState.CANCELLED
        assert hub.evaluations.get(evaluation.id).summary.scored >= stored
    wait_until(lambda: not stack.pids(Role.RUNNER), 20, lambda: "the box outlived its run")
    never_scored_zero(stack, evaluation.id)
    stack.cli("eval", "resume", evaluation.id)
    check_complete(stack, stack.finished(evaluation.id), folder)
