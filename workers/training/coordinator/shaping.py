"""What every policy request of a group says, whatever its environment asked for: the sampling that training relies on.

The recorded log-probabilities are the behaviour policy only when nothing cuts the distribution. In a deterministic run
each request has a seed of its own, hash(run, group, example, rollout, turn): the group's number stands for the step.
"""

from __future__ import annotations

import hashlib

from envhub.protocol.base import JsonObject

from workers.training.coordinator.plan import RolloutRequest

WHOLE_DISTRIBUTION: JsonObject = {
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "repetition_penalty": 1.0,
    "n": 1,
}


class Shaping:
    """Given to an Interceptor as its `shape`; knows the groups that run."""

    def __init__(self) -> None:
        self._groups: dict[str, RolloutRequest] = {}

    def begin(self, group_id: str, request: RolloutRequest) -> None:
        """Shape the requests of this group's rollouts."""
        self._groups[group_id] = request

    def end(self, group_id: str) -> None:
        """The group is over."""
        self._groups.pop(group_id, None)

    def __call__(self, name: str, number: int, body: JsonObject) -> JsonObject:
        """`name` is the recorder's: "<group id>.<rollout index>" ("<group id>.g" for a group behind one client)."""
        group_id, _, rollout = name.rpartition(".")
        request = self._groups.get(group_id)
        if request is None:
            return body
        shaped = {**body, **request.forced}
        if request.seed:
            shaped["seed"] = seed_of(request.seed, request.example, rollout, number)
        return shaped


def seed_of(*parts: object) -> int:
    """A seed of 31 bits."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def training_sampling(temperature: float) -> JsonObject:
    """What the requests of training rollouts say."""
    return {"temperature": temperature, **WHOLE_DISTRIBUTION}
