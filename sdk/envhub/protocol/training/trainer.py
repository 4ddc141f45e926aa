"""`[trainer]` and `[exporters]` of a training TOML: our additions to the hosted format."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, field_validator, model_validator

from envhub.protocol.base import Number, Request

Engine = Literal["torch", "vllm"]  # what serves the policy


class TrainingMode(StrEnum):
    """What is trained: a low-rank adapter, or every weight."""

    LORA = "lora"
    FULL = "full"


class Loss(StrEnum):
    """The policy-gradient losses of workers.training.learner.

    `grpo` averages over a rollout's tokens, then over rollouts, so that a token of a long rollout weighs less; `dapo`
    averages over all tokens; `dr_grpo` divides by rollouts x max_tokens, so that length changes nothing.
    """

    DPPO_KL = "dppo_kl"
    GRPO = "grpo"
    DAPO = "dapo"
    CISPO = "cispo"
    DR_GRPO = "dr_grpo"
    GSPO = "gspo"
    REINFORCE = "reinforce"


class Truncation(StrEnum):
    """What happens to a rollout that a limit has cut off: it is trained as it is, with advantage 0, or dropped."""

    TRAIN = "train"
    ZERO = "zero"
    DROP = "drop"


# Parameters of each loss with their defaults, which [trainer.loss_params] overrides.
LOSS_PARAMETERS: dict[Loss, dict[str, float]] = {
    Loss.DPPO_KL: {"mask_low": 0.2, "mask_high": 0.2, "adv_tau": 1.0, "kl_tau": 1e-3},
    Loss.GRPO: {"clip_low": 0.2, "clip_high": 0.2},
    Loss.DAPO: {"clip_low": 0.2, "clip_high": 0.28},
    Loss.CISPO: {"clip_high": 5.0},
    Loss.DR_GRPO: {"clip_low": 0.2, "clip_high": 0.2},
    Loss.GSPO: {"clip_low": 3e-4, "clip_high": 4e-4},
    Loss.REINFORCE: {},
}
LORA_TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
# The loss is fused with the head, whose matrix is often shared with the embedding.
WITHOUT_ADAPTER = frozenset({"lm_head", "embed_tokens", "embed_out", "wte"})
Beta = Annotated[float, Field(ge=0, lt=1)]


class TrainerTable(Request):
    """How the learner works. None lets the worker decide, from the model and its machine."""

    mode: TrainingMode = TrainingMode.LORA
    rank: int = Field(default=16, ge=1, le=512)  # of the adapter
    alpha: float | None = Field(default=None, gt=0, le=1e6)  # default: lora_alpha, else the rank
    target_modules: tuple[str, ...] = Field(default=LORA_TARGETS, min_length=1)
    loss: Loss = Loss.DPPO_KL
    loss_params: dict[str, Number] = Field(default_factory=dict)
    normalise_std: bool = False  # divide a group's advantages by their standard deviation
    gamma: float = Field(default=1.0, ge=0, le=1)  # discount of per-turn rewards
    truncation: Truncation = Truncation.TRAIN
    seq_len: int | None = Field(default=None, ge=16, lt=2**31)  # longest sample; longer ones are dropped and counted
    token_budget: int | None = Field(default=None, ge=16, lt=2**31)  # tokens per micro-batch
    prefix_sharing: bool = True  # compute the shared prompt of a group once
    max_off_policy: int = Field(
        default=4, ge=0, lt=2**31
    )  # weight versions by which a trained token may be behind; 0: synchronous
    engine: Engine | None = None
    dtype: Literal["float32", "bfloat16"] | None = None
    weight_decay: float = Field(default=0.01, ge=0, le=1e6)
    grad_clip: float = Field(default=1.0, gt=0, le=1e6)  # maximum gradient norm
    warmup_steps: int = Field(default=0, ge=0, lt=2**31)
    schedule: Literal["constant", "linear", "cosine"] = "constant"  # of the learning rate, after the warm-up
    betas: tuple[Beta, Beta] = (0.9, 0.999)
    activation_checkpointing: bool | None = None
    # Neither or 1: learner and engine take turns on one GPU. Both, or more than 1: each has its own.
    train_gpus: int | None = Field(default=None, ge=1, le=4096)
    engine_gpus: int | None = Field(default=None, ge=1, le=4096)
    # With several hosts the run is placed on its worker's Ray cluster, and the GPUs above count over all hosts.
    hosts: int = Field(default=1, ge=1, le=512)
    engines: int | None = Field(default=None, ge=1, le=512)  # replicas; default: hosts / engine_hosts
    # Hosts that each engine spans: its layers are split over them, and each layer over the engine's GPUs of a host.
    engine_hosts: int = Field(default=1, ge=1, le=512)
    # More of them on hosts with room that no run has asked for. They come and go with such hosts.
    extra_engines: int = Field(default=0, ge=0, le=512)
    # Splits the learner's state over all processes, or over those of each host, so that only gradients cross hosts.
    sharding: Literal["full", "hybrid"] = "full"
    seed: int = Field(default=0, ge=-(2**63), lt=2**63)
    deterministic: bool = False  # makes the whole run bitwise repeatable: torch engine, staleness 0

    @field_validator("target_modules")
    @classmethod
    def _layers_between_embedding_and_head(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if refused := WITHOUT_ADAPTER.intersection(value):
            listed = ", ".join(sorted(refused))
            raise ValueError(f'{listed} cannot have an adapter; omit it, or train all weights with mode = "full"')
        return value

    @field_validator("loss_params")
    @classmethod
    def _not_negative(cls, value: dict[str, float]) -> dict[str, float]:
        for name, number in value.items():
            if number < 0:
                raise ValueError(f"{name} must not be negative")
        return value

    @model_validator(mode="after")
    def _parameters_of_the_loss(self) -> Self:
        known = LOSS_PARAMETERS[self.loss]
        for name in self.loss_params:
            if name not in known:
                listed = ", ".join(known) or "none"
                raise ValueError(f"loss_params.{name} is not a parameter of {self.loss} (it has: {listed})")
        return self

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.deterministic and self.engine == "vllm":
            raise ValueError('deterministic = true needs engine = "torch": vLLM\'s batches change the last bits')
        if self.engine_gpus and (self.deterministic or self.engine == "torch"):
            raise ValueError('the torch engine does not use GPUs: omit engine_gpus, or set engine = "vllm"')
        self._fits_on_hosts()
        if self.token_budget and self.seq_len and self.token_budget < self.seq_len:
            raise ValueError("token_budget must be at least seq_len: a sample is never split")
        return self

    def _fits_on_hosts(self) -> None:
        if self.hosts == 1 and (self.engines or self.extra_engines):
            key = "engines" if self.engines else "extra_engines"
            raise ValueError(f"{key} needs hosts > 1: on one host a run has one engine")
        if self.hosts > 1 and self.train_gpus and self.train_gpus % self.hosts:
            raise ValueError("train_gpus must be a multiple of hosts: each has as many learner processes")
        self._engines_span_hosts()
        if self.engine_gpus and self.engine_gpus % self.replicas:
            raise ValueError("engine_gpus must be a multiple of engines (default: hosts): all are of one size")

    def _engines_span_hosts(self) -> None:
        if self.engine_hosts == 1:
            return
        if self.engine_hosts > self.hosts:
            raise ValueError(f"engine_hosts must be at most hosts ({self.hosts}): an engine uses hosts of the run")
        if self.engine == "torch" or self.deterministic:
            raise ValueError('engine_hosts > 1 needs engine = "vllm": the torch engine has one host')
        if self.extra_engines:
            raise ValueError("extra_engines needs engine_hosts = 1: an engine that comes and goes has one host")
        if self.engine_gpus and self.engine_gpus % (self.replicas * self.engine_hosts):
            raise ValueError(
                f"engine_gpus must be a multiple of {self.replicas * self.engine_hosts} (engines x engine_hosts): "
                "an engine has as many GPUs on each of its hosts"
            )

    @property
    def replicas(self) -> int:
        """Number of engines that serve in parallel."""
        return self.engines or self.hosts // self.engine_hosts

    @property
    def loss_parameters(self) -> dict[str, float]:
        """All parameters of the loss, with overrides."""
        return {**LOSS_PARAMETERS[self.loss], **self.loss_params}

    @property
    def staleness(self) -> int:
        """`max_off_policy`, or 0 if deterministic."""
        return 0 if self.deterministic else self.max_off_policy


class WandbTable(Request):
    """Sends metrics to Weights & Biases. Needs the secret WANDB_API_KEY and, for your own server, WANDB_BASE_URL.

    Mode "offline" (or the secret WANDB_MODE) needs neither: the worker keeps what `wandb sync` sends for a week.
    """

    entity: str | None = None
    project: str | None = None
    name: str | None = None
    mode: Literal["online", "offline"] = "online"


class MlflowTable(Request):
    """Sends metrics to an MLflow server.

    Uses the secrets MLFLOW_TRACKING_TOKEN, or _USERNAME and _PASSWORD, if the server requires them.
    """

    tracking_uri: str = Field(pattern=r"^https?://[^\s?#]+$", max_length=500)
    experiment: str = Field(default="environments-hub", min_length=1, max_length=250)
    name: str | None = None


class ExportersTable(Request):
    """Where metrics go besides the hub.

    TensorBoard and JSONL files grow on the worker in WORKER_DATA/metrics/TRAINING while the run lasts and stay for a
    week after it; `hub train export` makes both at any time.
    """

    wandb: WandbTable | None = None
    mlflow: MlflowTable | None = None
    tensorboard: bool = False
    jsonl: bool = True
