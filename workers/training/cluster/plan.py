"""What a run needs of its cluster, in RUN_DIR/cluster.json; for the driver and the learner's launcher.

Does not import Ray.
"""

from __future__ import annotations

from envhub.protocol.training.cluster_need import ClusterSplit
from pydantic import BaseModel, ConfigDict

from workers.inference.policy_engine import PolicyEngineStart
from workers.training.learner.directory.run_dir import RunDir


class ClusterPlan(BaseModel):
    """The plan of a run. A bundle for each host holds its learner processes and its engines."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: str  # of the cluster's head
    run_id: str
    split: ClusterSplit
    on_gpus: bool
    start: PolicyEngineStart  # as on this host; other hosts have their own files, GPUs and vLLM interpreter

    @property
    def namespace(self) -> str:
        """The Ray namespace in which the run's names are unique."""
        return f"hub-{self.run_id}"

    @property
    def rank_gpus(self) -> int:
        """GPUs per learner process."""
        return int(self.on_gpus)

    @property
    def engine_gpus(self) -> int:
        """GPUs of an engine on each of its hosts."""
        return self.split.engine_gpus_each // self.split.engine_hosts if self.on_gpus else 0

    def bundles(self) -> list[dict[str, float]]:
        """Return the resources that each host must have free; the first bundle is for the host that drives the run."""
        return [self._bundle(host) for host in range(self.split.hosts)]

    def _bundle(self, host: int) -> dict[str, float]:
        """Return a host's bundle.

        It asks for one CPU only: the hub counts hosts and GPUs, and a run must fit wherever the hub says that it fits.
        """
        ranks, engines = self.split.ranks_per_host, self.split.engine_parts(host)
        gpus = float(ranks * self.rank_gpus + engines * self.engine_gpus)
        return {"CPU": 1.0, **({"GPU": gpus} if gpus else {})}


def read_plan(run: RunDir) -> ClusterPlan:
    """Read the plan of a run. Raises OSError, ValidationError."""
    return ClusterPlan.model_validate_json(run.cluster.read_bytes())
