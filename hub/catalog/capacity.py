"""What the workers that are online can train and serve, for the list of models and for the choice of a queue."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from envhub.protocol.models.catalog import ModelSource
from envhub.protocol.training.estimate import SMALL

from hub.catalog.contents import weights_mb
from hub.catalog.models import Model
from hub.runs.engines import NO_ENGINE, EngineNeed
from hub.runs.placing.waiting import online_workers

TRAIN, GPU, SERVE = "train", "gpu", "serve"
VLLM = "vllm"
ENGINES = ("torch",)  # of a worker that does not say which it has


def is_small(parameters: int | None) -> bool:
    """Whether a CPU is enough to train it; what is not known is not small."""
    return parameters is not None and parameters < SMALL


@dataclass(frozen=True)
class Capacity:
    """The queues that somebody serves, and the engines of those who serve models."""

    queues: frozenset[str]
    engines: frozenset[str]

    def training_queue(self, parameters: int | None) -> str:
        """Where a training run of a model of this size waits: small ones need no GPU."""
        if not is_small(parameters):
            return GPU
        return GPU if GPU in self.queues and TRAIN not in self.queues else TRAIN

    def trains(self, model: Model) -> bool:
        """Whether a worker that can train the model is online."""
        return self.training_queue(model.parameters) in self.queues

    def serves(self, model: Model) -> bool:
        """Whether a worker that can serve the model is online."""
        return model.engine in self.engines

    def missing(self, model: Model) -> str:
        """Why the model cannot be trained or served now; "" when it can."""
        reasons = []
        if model.trainable and not self.trains(model):
            kind = "GPU" if self.training_queue(model.parameters) == GPU else "train"
            reasons.append(f"no {kind} worker is online")
        if not self.serves(model):
            reasons.append(f"no worker with the engine {model.engine} is online")
        return ", ".join(reasons)


def engine_need(models: Iterable[Model], engine: str = "") -> EngineNeed:
    """What a worker must have for a run that asks these models, by their own engines unless one is chosen.

    The torch engine, for small ones, is everywhere.
    """
    local = (model for model in models if model.source == ModelSource.LOCAL.value)
    own = [model for model in local if (engine or model.engine) == VLLM]
    return EngineNeed(VLLM, max(map(weights_mb, own))) if own else NO_ENGINE


def capacity_now(now: datetime) -> Capacity:
    """Two queries."""
    workers = online_workers(now)
    queues = {queue for worker in workers for queue in worker.queues}
    engines = {
        str(engine) for worker in workers if SERVE in worker.queues for engine in worker.facts.get("engines", ENGINES)
    }
    return Capacity(frozenset(queues), frozenset(engines))
