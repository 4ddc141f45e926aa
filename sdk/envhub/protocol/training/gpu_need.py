"""Computes how many GPUs a training run needs and how much memory on each, for leasing (hub) and placement (worker).

Learner and engine take turns on one GPU unless the file asks for more: the learner keeps weights and optimiser state
there, and the engine's weights and cache leave it while the learner works. The learner's formulas are
workers.training's memory plan with every layer recomputed, the worker's fallback when memory is short, unless the
file forbids it.
"""

from __future__ import annotations

from dataclasses import dataclass

from envhub.protocol.placing.gpus import GpuNeed
from envhub.protocol.training.cluster_need import cluster_split
from envhub.protocol.training.config import TrainingConfig
from envhub.protocol.training.estimate import HEAD_CHUNK, estimate
from envhub.protocol.training.shapes import ModelShape
from envhub.protocol.training.trainer import Engine, TrainerTable, TrainingMode

MB, GB = 1024**2, 1024**3
RESERVE = 2 * GB  # CUDA context, kernels, graphs and fragmentation of one process
LEAST_ROLLOUTS = 8  # rollouts that the engine's cache must hold at full length, if that many are ever in flight
VERSIONS = 4  # versions of an adapter in the engine at once
# bytes: of a bf16 weight, of an fp32 weight, of a weight's gradient and two AdamW moments in fp32
BF16, FP32, ADAMW = 2, 4, 12
BYTES = {"float32": FP32, "bfloat16": BF16}


class BadWish(ValueError):
    """Raised if `[trainer]` asks for an impossible GPU layout. `field` is the key; the message says what to do."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True)
class Split:
    """GPUs of the learner and of the engine. `engine` is 0 if it shares the learner's GPU or needs none (torch)."""

    learner: int
    engine: int

    @property
    def count(self) -> int:
        """Total number of GPUs."""
        return self.learner + self.engine


@dataclass(frozen=True)
class GpuSizes:
    """Bytes summed over all GPUs of a part, except `learner_step`, which is per GPU."""

    learner_fixed: int  # weights, masters, gradients, moments
    learner_step: int  # activations and logits of one micro-batch
    engine_weights: int
    engine_cache: int  # the minimum worth starting with
    heads: int  # a split of the engine over GPUs of one host must divide them
    layers: int  # are split over the engine's hosts
    embedding: int  # or output head: whole on the first and on the last of these hosts


def engine_of(trainer: TrainerTable, default: str) -> Engine:
    """Return the engine that serves the policy; `default` is the model's. Only vLLM's spans hosts."""
    kind = trainer.engine or ("torch" if trainer.deterministic else "vllm" if trainer.engine_hosts > 1 else default)
    return "vllm" if kind == "vllm" else "torch"


def split_of(trainer: TrainerTable, engine: Engine) -> Split:
    """Plan the GPUs: one shared in turns, unless more are requested. Raises BadWish."""
    learner, engine_gpus = trainer.train_gpus, trainer.engine_gpus
    if engine == "torch":
        if engine_gpus:
            raise BadWish(
                "trainer.engine_gpus", 'the torch engine does not use GPUs: omit engine_gpus, or set engine = "vllm"'
            )
        return Split(learner or 1, 0)
    asked = (learner or 1) + (engine_gpus or 1)
    apart = asked > 2 or (learner is not None and engine_gpus is not None)
    return Split(learner or 1, engine_gpus or 1) if apart else Split(1, 0)


def gpu_sizes(config: TrainingConfig, shape: ModelShape) -> GpuSizes:
    """Compute the sizes: bf16 weights with fp32 masters in the learner, or all fp32 if requested."""
    trainer = config.trainer
    full = trainer.mode is TrainingMode.FULL
    trained = shape.parameters if full else shape.lora_parameters(trainer.rank, trainer.target_modules)
    counts = estimate(config, None)
    budget = trainer.token_budget or max(counts.longest_sample, 8192)
    width = BYTES[trainer.dtype or "bfloat16"]
    adapters = 0 if full else VERSIONS * trained * width
    rollouts = min(config.inflight, LEAST_ROLLOUTS)
    token = _token(shape, width, kept=trainer.activation_checkpointing is False)
    return GpuSizes(
        learner_fixed=shape.parameters * width + trained * ADAMW + _masters(shape, trained, full=full, width=width),
        learner_step=budget * token + 3 * min(budget, HEAD_CHUNK) * shape.vocabulary * FP32,
        engine_weights=shape.parameters * width + adapters,
        engine_cache=rollouts * counts.longest_sample * shape.kv_values * width,
        heads=shape.kv_heads,
        layers=shape.layers,
        embedding=shape.vocabulary * shape.hidden * width,
    )


def _masters(shape: ModelShape, trained: int, *, full: bool, width: int) -> int:
    """Return the bytes of fp32 masters of trained weights, and of a second gradient of the head.

    fp32 weights are their own masters.
    """
    if not full:
        return trained * FP32
    return 0 if width == FP32 else trained * FP32 + shape.vocabulary * shape.hidden * FP32


def _token(shape: ModelShape, width: int, *, kept: bool) -> int:
    """Return the learner's bytes per token: all of each layer, or each layer's input and all of one recomputed."""
    layers = shape.layers * _layer(shape, width) if kept else shape.layers * width * shape.hidden + _layer(shape, width)
    return (3 * width + 2 * FP32) * shape.hidden + layers


def _layer(shape: ModelShape, width: int) -> int:
    """Return one layer's bytes per token; norms and rotations work in fp32."""
    query, key = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    wide, narrow = 2 * shape.hidden + query + key, 4 * (shape.hidden + shape.intermediate + query) + 3 * key
    return FP32 * wide + width * narrow


def shared_bytes(sizes: GpuSizes) -> int:
    """Return the bytes on a GPU that learner and engine share in turns; both keep their contexts there."""
    serving, learning = sizes.engine_weights + sizes.engine_cache, sizes.learner_step
    return sizes.learner_fixed + max(serving, learning) + 2 * RESERVE


def engine_bytes(sizes: GpuSizes, gpus: int, hosts: int = 1) -> int:
    """Return the bytes on each GPU of an engine that has `gpus` on each of its hosts, where most layers are."""
    whole = sizes.engine_weights + sizes.engine_cache
    if hosts > 1:
        whole = whole * -(-sizes.layers // hosts) // sizes.layers + sizes.embedding
    return whole // gpus + RESERVE


def learner_bytes(sizes: GpuSizes, gpus: int) -> int:
    """Return the bytes on each GPU of the learner: its state is split over them (FSDP2), a micro-batch is not."""
    return sizes.learner_fixed // gpus + sizes.learner_step + RESERVE


def gpu_need(config: TrainingConfig, shape: ModelShape | None, engine: Engine) -> GpuNeed:
    """Return what to ask of a worker. An unknown shape asks for GPUs of any size. Raises BadWish."""
    if config.trainer.hosts > 1:
        return _cluster_gpu_need(config, shape, engine)
    split = split_of(config.trainer, engine)
    if shape is None:
        return GpuNeed(count=split.count)
    sizes = gpu_sizes(config, shape)
    if split.engine and sizes.heads % split.engine:
        raise BadWish("trainer.engine_gpus", heads_message(sizes.heads, split.engine))
    if split.engine:
        most = max(engine_bytes(sizes, split.engine), learner_bytes(sizes, split.learner))
    elif engine == "vllm":
        most = shared_bytes(sizes)
    else:
        most = learner_bytes(sizes, split.learner)
    return GpuNeed(count=split.count, memory_mb=-(-most // MB))


def _cluster_gpu_need(config: TrainingConfig, shape: ModelShape | None, engine: Engine) -> GpuNeed:
    """Return the need over all hosts: the learner's state is split according to `sharding`, each engine is whole."""
    split = cluster_split(config.trainer, engine)
    if shape is None:
        return split.need()
    sizes, each, hosts = gpu_sizes(config, shape), split.engine_gpus_each // split.engine_hosts, split.engine_hosts
    if each and sizes.heads % each:
        apart = "on each host of an engine" if hosts > 1 else f"for each of {split.engines} engines"
        raise BadWish("trainer.engine_gpus", f"{heads_message(sizes.heads, each)} {apart}")
    if hosts > sizes.layers:
        raise BadWish("trainer.engine_hosts", f"the model's {sizes.layers} layers cannot be split over {hosts} hosts")
    parts = split.ranks_per_host if config.trainer.sharding == "hybrid" else split.ranks
    most = max(learner_bytes(sizes, parts), engine_bytes(sizes, each, hosts) if each else 0)
    return split.need(-(-most // MB))


def heads_message(heads: int, gpus: int, name: str = "engine_gpus") -> str:
    """Explain why the engine cannot be split over `gpus` and which numbers work; `name` is the setting that asks."""
    possible = ", ".join(str(number) for number in range(1, heads + 1) if heads % number == 0)
    return f"the model's {heads} key-value heads cannot be split over {gpus} GPUs: {name} may be {possible}"
