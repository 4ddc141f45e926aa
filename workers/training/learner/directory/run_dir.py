"""File names in a run's directory, shared by the learner and the coordinator. Does not import torch.

Read: config.json, base/ (the model in Hugging Face's format), journal/, stop (an empty file: finish and exit).
Written: weights/v000001/ (the policy after step 1; an adapter also has v000000), checkpoints/step-000010/,
metrics.jsonl (one line per step), learner.state.json (heartbeat), learner.error.json (why it exited), budgets.jsonl
(token budgets that memory enforced), logprobs/ (the learner's own for a step's trained tokens, until it is reported).
On several hosts: cluster.json and visited, see workers.training.cluster.plan and .visited.
On a shared GPU: turn.wanted (by the learner) and turn.granted (to it); see learner.turns.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class RunDir:
    """The paths under `root`."""

    root: Path

    @property
    def config(self) -> Path:
        return self.root / "config.json"

    @property
    def base(self) -> Path:
        return self.root / "base"

    @property
    def journal(self) -> Path:
        return self.root / "journal"

    @property
    def checkpoints(self) -> Path:
        return self.root / "checkpoints"

    @property
    def metrics(self) -> Path:
        return self.root / "metrics.jsonl"

    @property
    def state(self) -> Path:
        return self.root / "learner.state.json"

    @property
    def error(self) -> Path:
        return self.root / "learner.error.json"

    @property
    def budgets(self) -> Path:
        return self.root / "budgets.jsonl"

    @property
    def stop(self) -> Path:
        return self.root / "stop"

    @property
    def cluster(self) -> Path:
        return self.root / "cluster.json"

    @property
    def visited(self) -> Path:
        return self.root / "visited"

    @property
    def turn_wanted(self) -> Path:
        return self.root / "turn.wanted"

    @property
    def turn_granted(self) -> Path:
        return self.root / "turn.granted"

    @property
    def weights(self) -> Path:
        return self.root / "weights"

    @property
    def logprobs(self) -> Path:
        return self.root / "logprobs"

    def logprobs_of(self, step: int) -> Path:
        """Return the file for a step's trained tokens; see learner.token_logprobs."""
        return self.logprobs / f"step-{step:06d}.safetensors"

    def version(self, version: int) -> Path:
        """Return the folder of the policy after step `version`."""
        return self.weights / f"v{version:06d}"

    def checkpoint(self, step: int) -> Path:
        """Return the folder of the learner's state after `step`."""
        return self.checkpoints / f"step-{step:06d}"
