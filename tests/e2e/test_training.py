"""The main training job on a whole installation: submitted by the CLI, trained, its adapter evaluated and served."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest
from envhub.protocol.registry.packages import VersionState
from envhub.protocol.runs import RunState

from tests.e2e import reversing
from tests.e2e.stack import ROOT, Stack
from tests.workers.training.runs.trainings import tiny_model

pytestmark = [
    pytest.mark.matrix,
    pytest.mark.torch,
    pytest.mark.verifiers,
    pytest.mark.sandbox,
    pytest.mark.xdist_group("e2e"),
]
TOML = """name = "reverser"
model = "{model}"
max_steps = 2
batch_size = 16
rollouts_per_example = 4
[sampling]
max_tokens = 12
[[env]]
id = "{environment}"
[val]
num_examples = 4
interval = 2
[trainer]
rank = 8
"""


@pytest.fixture
def trainer(stack: Stack) -> Iterator[Stack]:
    """The hub with a worker that also trains."""
    with stack.restarted(WORKER_SLOTS=json.dumps({"build": 1, "eval": 1, "train": 1})):
        yield stack


def test_a_run_ends_in_an_adapter_that_is_evaluated_and_served_by_name(trainer: Stack, tmp_path: Path) -> None:
    stack = trainer
    environment = reversing.push_reverse_text(stack)
    stack.cli("model", "import-dir", "tiny", str(tiny_model()), "--engine", "torch")
    file = tmp_path / "train.toml"
    file.write_text(TOML.format(model=f"{stack.user}/tiny", environment=environment))
    view = stack.cli("train", "run", str(file), "--json").json
    assert (view["state"], view["step"]) == ("succeeded", 2), stack.run_log(view["run_id"])[-3000:]
    assert [adapter["name"] for adapter in view["adapters"]] == ["reverser"]
    assert {point["label"] for point in view["evaluations"]} == {"val"}
    rows = stack.cli("train", "rollouts", view["id"], "--json").json
    assert {row["step"] for row in rows} == {2}
    (first, *_) = (row["index"] for row in rows if row["admitted"])
    tokens = stack.cli("train", "rollouts", view["id"], str(first), "--tokens", "--json").json
    assert any(token["trained"] == "yes" for token in tokens)
    adapter = f"{stack.user}/reverser"
    asked = {"num_examples": 2, "env_args": {"length": 4}, "sampling": {"max_tokens": 12}}
    evaluation = stack.finished(reversing.start(stack, environment, adapter, **asked).id)
    assert evaluation.state is RunState.SUCCEEDED, stack.run_log(evaluation.run_id or "")[-3000:]
    assert evaluation.summary.scored > 0, stack.rollouts(evaluation.id)
    stack.cli("deploy", "create", "reverser")
    with openai.OpenAI(base_url=f"{stack.url}/inference/v1", api_key=stack.token, timeout=300, max_retries=5) as client:
        chunks = list(client.completions.create(model=adapter, prompt="reverse: abcd", max_tokens=4, stream=True))
    assert "".join(chunk.choices[0].text for chunk in chunks)
    (deployment,) = [item for item in stack.cli("deploy", "list", "--json").json if item["model"] == adapter]
    assert (deployment["usage"]["requests"], deployment["usage"]["completion_tokens"]) == (1, 4)
    stack.cli("deploy", "delete", "reverser", "--yes")


CODING = """model = "{model}"
max_steps = 2
batch_size = 8
rollouts_per_example = 4
[sampling]
max_tokens = 24
[[env]]
id = "{environment}"
args = {{ num_train = 8, num_eval = 2, max_turns = 1 }}
[trainer]
rank = 4
"""


def test_a_coding_task_is_trained_on_what_tests_in_sandboxes_say(trainer: Stack, tmp_path: Path) -> None:
    """The tiny model repairs nothing; how much it leaves as it was differs, so groups have a signal."""
    stack = trainer
    version = stack.wait_ready(stack.push(ROOT / "environments" / "fix-function"))
    assert version.state is VersionState.READY, version.failure
    stack.cli("model", "import-dir", "coder", str(tiny_model()), "--engine", "torch")
    file = tmp_path / "train.toml"
    file.write_text(CODING.format(model=f"{stack.user}/coder", environment=f"{stack.user}/fix-function"))
    view = stack.cli("train", "run", str(file), "--json").json
    assert (view["state"], view["step"]) == ("succeeded", 2), stack.run_log(view["run_id"])[-3000:]
    with stack.client() as hub:
        rollouts = [hub.training.rollout(view["id"], 2, index) for index in range(8)]
    assert len({record.reward for record in rollouts}) > 1
    for record in rollouts:
        (sandbox,) = record.sandboxes
        assert (sandbox.served_as, sandbox.state) == ("hub/base", "stopped")
        assert any("call.py" in " ".join(command.argv) for command in sandbox.commands)
        assert "passed" in record.metrics
