"""What a run wants of its cluster, in RUN_DIR/cluster.json: for the driver and the learner's launcher. Free of Ray."""

from __future__ import annotations

from envhub.protocol.training.cluster_need import ClusterSplit
from pydantic import BaseModel, ConfigDict

from workers.inference.policy_engine import PolicyEngineStart
from workers.training.learner.directory.run_dir import RunDir


class ClusterPlan(BaseModel):
    """A bundle for each host holds its learner processes and its engines."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: str  # of the cluster's head
    run_id: str
    split: ClusterSplit
    on_gpus: bool
    start: PolicyEngineStart  # as on this host; each host has its own files, GPUs and interpreter of vLLM

    @property
    def namespace(self) -> str:
        """Where the run's names are unique."""
        return f"hub-{self.run_id}"

    @property
    def rank_gpus(self) -> int:
        """GPUs of a learner's process."""
        return int(self.on_gpus)

    @property
    def engine_gpus(self) -> int:
        """GPUs of an engine."""
        return self.split.engine_gpus_each if self.on_gpus else 0

    def bundles(self) -> list[dict[str, float]]:
        """What each host must have to spare, the first for the one that the run is driven from."""
        return [self._bundle(host) for host in range(self.split.hosts)]

    def _bundle(self, host: int) -> dict[str, float]:
        """One processor stands for all: hosts and GPUs are what the hub counts, and a run must fit where it says so."""
        ranks, engines = self.split.ranks_per_host, len(range(host, self.split.engines, self.split.hosts))
        gpus = float(ranks * self.rank_gpus + engines * self.engine_gpus)
        return {"CPU": 1.0, **({"GPU": gpus} if gpus else {})}


def read_plan(run: RunDir) -> ClusterPlan:
    """The plan of a run. Raises OSError, ValidationError."""
    return ClusterPlan.model_validate_json(run.cluster.read_bytes())
