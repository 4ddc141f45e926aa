"""vLLM behind the hub: a deployed adapter, evaluated by name and called through the hub's OpenAI-compatible address."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import openai
import pytest
from envhub.protocol.runs import RunState

from tests.contract.engines import VLLM_ARGUMENTS
from tests.e2e import reversing
from tests.e2e.services import service_settings
from tests.e2e.stack import Stack, running_stack

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.torch,
    pytest.mark.verifiers,
    pytest.mark.sandbox,
    pytest.mark.xdist_group("e2e"),
]


# What a training run's end does, without the run: no route takes an adapter from anybody else.
REGISTER = """
from pathlib import Path
from hub.accounts.models import Owner
from envhub.protocol.visibility import Visibility
from hub.catalog.models import Model
from hub.catalog.services import register_adapter
from hub.storage.services import store_file
owner = Owner.objects.get(slug={user!r})
files = {{path.name: store_file(path).sha256 for path in Path({directory!r}).iterdir()}}
base = Model.objects.get(owner=owner, name="tiny-vllm")
register_adapter(owner=owner, name="sorter", base=base, files=files, visibility=Visibility.PRIVATE)
"""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """A hub of its own, whose worker has vLLM from the start."""
    python = os.environ.get("VLLM_PYTHON", "")
    if not python:
        pytest.skip("VLLM_PYTHON names no interpreter with vLLM: run `make test-vllm`")
    own = {"WORKER_VLLM_PYTHON": python, "WORKER_VLLM_ARGUMENTS": json.dumps(VLLM_ARGUMENTS)}
    with (
        service_settings() as settings,
        running_stack(tmp_path_factory.mktemp("hub"), {**settings, **own}) as running,
    ):
        yield running


@pytest.fixture(scope="module")
def served(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An adapter of the tiny model, deployed for the engine vllm."""
    policies = pytest.importorskip("tests.contract.policies")
    folder = tmp_path_factory.mktemp("model")
    base = policies.make_policy(folder / "base", 0)
    adapter = policies.make_adapter(folder / "adapter", base, 1)
    stack.cli("model", "import-dir", "tiny-vllm", str(base.directory), "--engine", "vllm")
    stack.manage("shell", "-c", REGISTER.format(user=stack.user, directory=str(adapter.directory)))
    stack.cli("deploy", "create", "sorter")
    return f"{stack.user}/sorter"


def test_an_evaluation_by_name_stores_token_ids_and_logprobs(stack: Stack, served: str) -> None:
    environment = reversing.push_reverse_text(stack)
    config = {"num_examples": 2, "rollouts_per_example": 2, "sampling": {"max_tokens": 8}, "concurrency": 2}
    view = stack.finished(reversing.start(stack, environment, served, **config).id)
    assert view.state is RunState.SUCCEEDED, stack.run_log(view.run_id or "")[-3000:]
    with stack.client() as hub:
        records = [hub.evaluations.rollout(view.id, row.example, row.rollout) for row in stack.rollouts(view.id)]
    tokens = [turn.tokens for record in records for turn in record.turns]
    assert len(tokens) == 4
    for found in tokens:
        assert found is not None
        assert found.prompt_ids
        assert len(found.completion_ids) == len(found.logprobs) > 0
        assert all(logprob <= 0 for logprob in found.logprobs)


def test_the_openai_client_streams_it_from_the_hub(stack: Stack, served: str) -> None:
    messages = [{"role": "user", "content": "reverse: abc"}]
    with openai.OpenAI(base_url=f"{stack.url}/inference/v1", api_key=stack.token, timeout=300, max_retries=5) as client:
        stream = client.chat.completions.create(
            model=served,
            messages=messages,  # type: ignore[arg-type]
            max_tokens=8,
            stream=True,
            stream_options={"include_usage": True},
        )
        chunks = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert chunks[-1].usage is not None
    assert 0 < chunks[-1].usage.completion_tokens <= 8
    (deployment,) = stack.cli("deploy", "list", "--json").json
    assert deployment["usage"]["completion_tokens"] == chunks[-1].usage.completion_tokens
