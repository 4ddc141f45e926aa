"""A hub that trains, as far as the command line sees it: answers of envhub.protocol over httpx, a step a look."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from envhub.protocol.models.deployments import DeploymentRequest, DeploymentView
from envhub.protocol.runs import RunState
from envhub.protocol.training.runs import TrainingRequest, TrainingRunView
from envhub.protocol.training.toml import TrainingConfigError, read_training_request
from pydantic import BaseModel

GOLDEN = Path(__file__).resolve().parents[1] / "contract" / "golden" / "training"
AT = datetime(2026, 1, 2, tzinfo=UTC)
FAILURE = {"kind": "environment", "code": "broken", "message": "it broke", "hint": "mend it"}


def golden(name: str) -> Any:
    """One of the contract's golden values."""
    return json.loads((GOLDEN / f"{name}.json").read_text())


@dataclass
class TrainingHub:
    """Give `transport` to a Session. The run reaches the state `end` after `steps` steps; `done` are behind it."""

    steps: int = 3
    done: int = 0
    end: RunState = RunState.SUCCEEDED
    requests: list[TrainingRequest] = field(default_factory=list)
    owners: list[str | None] = field(default_factory=list)  # of the requests, where the caller named one
    stopped: bool = False
    deployments: list[DeploymentView] = field(default_factory=list)

    @property
    def transport(self) -> httpx.MockTransport:
        """What replaces the network."""
        return httpx.MockTransport(self._answer)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/v1/")
        routes: dict[tuple[str, str], Callable[[httpx.Request], Any]] = {
            ("GET", "me"): lambda _: {"user": "alice", "owners": ["alice"], "scopes": []},
            ("POST", "training"): self._create,
            ("GET", "training"): lambda _: self._page([self.view()]),
            ("GET", "training/t1"): lambda _: self.view(),
            ("GET", "training/t1/metrics"): self._metrics,
            ("GET", "training/t1/rollouts"): lambda _: self._page([golden("rollout")]),
            ("GET", "training/t1/rollouts/3/0"): lambda _: record(),
            ("GET", "training/t1/checkpoints"): lambda _: self._page([golden("checkpoint")]),
            ("POST", "training/t1/stop"): self._stop,
            ("POST", "training/t1/resume"): lambda _: self.view(RunState.QUEUED),
            ("GET", "training/t1/export"): lambda _: httpx.Response(200, content=b'{"step": 1}\n'),
            ("DELETE", "training/t1"): lambda _: httpx.Response(204),
            ("GET", "runs/r1"): lambda _: self._run(),
            ("GET", "environments/alice/reverse-text/versions/latest"): lambda _: version(),
            ("POST", "deployments"): self._deploy,
            ("GET", "deployments"): lambda _: self._page(self.deployments),
            ("DELETE", "deployments/d1"): self._undeploy,
        }
        route = routes.get((request.method, path))
        if route is None:
            return self._error(404, "not_found", f"the fake has no {request.method} {path}")
        answer = route(request)
        if isinstance(answer, httpx.Response):
            return answer
        return httpx.Response(200, json=answer.model_dump(mode="json") if isinstance(answer, BaseModel) else answer)

    def _error(self, status: int, code: str, message: str, **fields: str) -> httpx.Response:
        return httpx.Response(status, json={"error": {"code": code, "message": message, "fields": fields}})

    def _page(self, items: list[Any]) -> Any:
        plain = [item.model_dump(mode="json") if isinstance(item, BaseModel) else item for item in items]
        return {"items": plain, "next": None}

    def view(self, state: RunState | None = None) -> TrainingRunView:
        """The run as it is now."""
        now = state or (RunState.RUNNING if self.done < self.steps else self.end)
        return TrainingRunView.model_validate(
            golden("run")
            | {"state": now, "step": self.done, "max_steps": self.steps}
            | {"failure": FAILURE if now is RunState.FAILED else None}
        )

    def _create(self, request: httpx.Request) -> Any:
        self.owners.append(request.url.params.get("owner"))
        body = TrainingRequest.model_validate_json(request.content)
        try:
            read_training_request(body)
        except TrainingConfigError as error:
            return self._error(422, "invalid", error.message, **error.fields)
        self.requests.append(body)
        return self.view(RunState.QUEUED)

    def _run(self) -> Any:
        self.done = min(self.steps, self.done + 1)
        state = RunState.RUNNING if self.done < self.steps else self.end
        return {
            "id": "r1", "kind": "train", "state": state, "owner": "alice", "created_by": "alice", "subject": "s",
            "subject_url": "/", "queue": "gpu", "attempt": 1, "created_at": AT.isoformat(),
            "failure": FAILURE if state is RunState.FAILED else None,
            "progress": {"done": self.done, "total": self.steps, "unit": "steps", "note": f"reward {self.done / 4}"},
        }  # fmt: skip

    def _metrics(self, request: httpx.Request) -> Any:
        after = int(request.url.params.get("after_step", 0))
        steps = range(after + 1, self.done + 1)
        return self._page([golden("metrics") | {"step": step, "reward_mean": 0.25 * step} for step in steps])

    def _stop(self, _: httpx.Request) -> Any:
        self.stopped = True
        return self.view(RunState.CANCELLED)

    def _deploy(self, request: httpx.Request) -> DeploymentView:
        asked = DeploymentRequest.model_validate_json(request.content)
        found = DeploymentView.model_validate(golden("deployment") | {"model": asked.model, "state": "queued"})
        self.deployments.append(found)
        return found

    def _undeploy(self, _: httpx.Request) -> httpx.Response:
        self.deployments.clear()
        return httpx.Response(204)


def version() -> Any:
    """A version that can be trained on."""
    return {
        "id": "v1", "owner": "alice", "name": "reverse-text", "version": "0.1.0", "state": "ready", "size": 1,
        "wheel_filename": "reverse_text-0.1.0-py3-none-any.whl", "wheel_sha256": "a" * 64, "sdist_sha256": "b" * 64,
        "created_at": AT.isoformat(), "created_by": "alice",
    }  # fmt: skip


def record() -> Any:
    """A rollout of two sampled tokens with its training values."""
    turn = {
        "index": 0, "protocol": "chat", "model": "m", "request": {}, "response": {}, "token_texts": ["d", "c"],
        "tokens": {"prompt_ids": [1], "completion_ids": [5, 6], "logprobs": [-0.5, -0.7]},
    }  # fmt: skip
    return {
        "example": 5, "rollout": 0, "example_hash": "a" * 64, "outcome": "ok", "reward": 1.0, "turns": [turn],
        "prompt": [{"role": "user", "content": "reverse: cd"}],
        "completion": [{"role": "assistant", "content": "dc"}], "extras": {"training": golden("rollout_tokens")},
    }  # fmt: skip
