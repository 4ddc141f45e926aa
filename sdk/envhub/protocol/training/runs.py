"""Wire types of training runs: the request, the worker's payload and step reports, and what readers see."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from envhub.protocol.accounts.secrets import SecretName
from envhub.protocol.base import BlobRef, Count, Number, Request, Response, Sha256, Size, Slug, StoredObject
from envhub.protocol.evals.rollouts import Outcome
from envhub.protocol.models.catalog import EndpointTarget, LocalTarget, OutboundPolicy
from envhub.protocol.registry.builds import EnvironmentLock
from envhub.protocol.registry.packages import GenerationEvidence
from envhub.protocol.runs import Failure, FailureKind, RunState
from envhub.protocol.training.config import TrainingConfig
from envhub.protocol.training.environment import EvalEnvironment, TrainingEnvironment
from envhub.protocol.training.metrics import EvaluationPoint, StepMetrics
from envhub.protocol.training.trainer import TrainingMode
from envhub.protocol.visibility import Visibility

TOKENS_KEY = "training"  # RolloutRecord.extras[TOKENS_KEY] is a RolloutTokens


class TrainingRequest(Request):
    """Start a training run from either the file as written (`toml`) or its content as JSON (`config`)."""

    toml: str = Field(default="", max_length=262_144)
    config: StoredObject | None = None  # limited where it is read, like the file
    env: dict[SecretName, str] = Field(
        default_factory=dict, repr=False, max_length=100
    )  # values from env_files, stored encrypted with this run
    visibility: Visibility | None = None


class ResumeRequest(Request):
    """Resume an ended run from its newest checkpoint, or from that of `step`."""

    step: Count | None = None


class PolicyTarget(Response):
    """The model to train. Its files come by URL, or from the hub's Hugging Face cache at a pinned revision."""

    reference: str  # the name in the configuration
    base: LocalTarget | None = None
    repository: str = ""  # repository at data_url, if base is None
    revision: str = ""
    adapter: LocalTarget | None = None  # the LoRA adapter that the run continues
    engine: str = "torch"  # "torch" or "vllm": serves it unless [trainer] engine is set


class EnvironmentTarget(Response):
    """An environment of the run, ready to install."""

    label: str  # name in metrics
    environment: str  # owner/name@version
    env_id: str  # name of the distribution
    module: str
    evidence: GenerationEvidence
    lock: EnvironmentLock  # with presigned wheel URLs
    secrets: dict[str, str] = Field(default_factory=dict)  # injected into its box
    judges: dict[str, EndpointTarget] = Field(default_factory=dict)
    # no check of the version used its harness, so its needs are tested before the first step
    tries_harness: bool = False


class TrainTarget(EnvironmentTarget):
    """An environment to train on."""

    config: TrainingEnvironment


class EvalTarget(EnvironmentTarget):
    """An environment to evaluate on."""

    config: EvalEnvironment


class StoredFiles(Response):
    """Files in object storage by relative path."""

    files: dict[str, BlobRef] = Field(default_factory=dict)


class ResumeState(Response):
    """The checkpoint from which an interrupted or resumed run continues."""

    checkpoint_id: str
    step: int
    files: dict[str, BlobRef]


class TrainPayload(Response):
    """`Claim.payload` of a train run."""

    training_id: str
    config: TrainingConfig
    model: PolicyTarget
    environments: tuple[TrainTarget, ...]
    evaluations: tuple[EvalTarget, ...] = ()
    # values of TRAINER_SECRETS, for downloads and exporters; none enters a box
    secrets: dict[str, str] = Field(default_factory=dict)
    resume: ResumeState | None = None  # the newest checkpoint of this run
    warm_start: StoredFiles | None = None  # weights of config.checkpoint_id; ignored if `resume` is set
    reported_steps: int = 0  # the last step that the hub has stored
    gpus: Count = 0  # over all hosts of the run; 0: on the CPU
    data_url: str | None = None  # the hub's Hugging Face cache
    outbound: OutboundPolicy = OutboundPolicy()  # the hub's rules for the exporters' servers


class TokenTraining(Response):
    """How training used the completion tokens of one turn. Every list is as long as completion_ids, or empty."""

    trained: tuple[bool, ...] = ()  # included in the loss
    advantages: tuple[float, ...] = ()
    logprobs: tuple[float, ...] = ()  # the learner's; those of the sampler are in the turn
    versions: tuple[int, ...] = ()  # version of the weights that sampled the token


class RolloutTokens(Response):
    """The token view of a rollout, with its policy turns in order."""

    turns: tuple[TokenTraining, ...] = ()


class TrainingIndexRow(Request):
    """The index row of one rollout of a step."""

    index: Count  # 0, 1, ... within the step
    environment: str  # label
    example: Count
    example_hash: str
    group: str
    outcome: Outcome
    reward: Number | None = None
    advantage: Number | None = None
    metrics: dict[str, Number] = Field(default_factory=dict)
    admitted: bool = True  # in the batch
    dropped: str = ""  # the reason if not admitted: zero_signal, stale, failed, ...
    failure_kind: FailureKind | None = None
    failure_message: str = ""
    asked: str = ""  # one-line texts, see envhub.packaging.snippets
    answered: str = ""
    target: str = ""
    turns: Count = 0
    completion_tokens: Count = 0
    duration_s: Number = 0.0
    version_min: Count | None = None
    version_max: Count | None = None
    row_group: int = Field(default=0, ge=0, lt=2**15)
    row: int = Field(default=0, ge=0, lt=2**15)  # within the row group


class StepSegment(Request):
    """An uploaded Parquet segment of RolloutRecords (with extras[TOKENS_KEY]), and their index rows."""

    sha256: Sha256
    size: Size
    rows: tuple[TrainingIndexRow, ...] = Field(max_length=1024)


class BeginningReport(Request):
    """The step after which an attempt continues.

    Reports of earlier attempts on later steps are discarded. Idempotent.
    """

    step: Count


class StepReport(Request):
    """A finished step with the rollouts that its batch was made from. Idempotent on (training run, step)."""

    metrics: StepMetrics
    segments: tuple[StepSegment, ...] = Field(default=(), max_length=128)


class StepReply(Response):
    """`stored` is False if the report was already stored or, for a beginning, if nothing had to be discarded."""

    stored: bool


class EvaluationReport(Request):
    """A finished evaluation of the policy between two steps. Idempotent on (training run, label, step)."""

    point: EvaluationPoint


class CheckpointReport(Request):
    """The complete state of the run after a step, already uploaded. Idempotent on (training run, step)."""

    step: Count
    files: dict[str, Sha256] = Field(min_length=1, max_length=2000)
    size: Size = 0
    final: bool = False


class CheckpointView(Response):
    """A checkpoint."""

    id: str
    training_id: str
    step: int
    size: int
    files: int
    final: bool = False
    created_at: datetime


class AdapterReport(Request):
    """Trained weights for the catalog, already uploaded: a LoRA directory or a whole model. Idempotent on step."""

    step: Count
    mode: TrainingMode
    files: dict[str, Sha256] = Field(min_length=1, max_length=2000)
    size: Size = 0
    rank: Count | None = None
    alpha: Number | None = None
    reward_mean: Number | None = None
    final: bool = False


class AdapterView(Response):
    """Trained weights in the catalog. `owner/name` is a model to evaluate, deploy or train on."""

    id: str
    owner: Slug
    name: str
    training_id: str | None
    step: int
    mode: TrainingMode
    base: str  # reference of the model that it was trained from
    rank: int | None = None
    size: int = 0
    reward_mean: float | None = None
    final: bool = False
    visibility: Visibility = Visibility.PRIVATE
    created_at: datetime


class HealthLevel(StrEnum):
    """How serious a problem is."""

    OK = "ok"
    WARN = "warn"
    BAD = "bad"


class HealthBadge(Response):
    """One aspect of a run's health, with advice on what to do."""

    name: str
    level: HealthLevel
    value: float
    message: str
    advice: str = ""


class TrainingRunView(Response):
    """A training run."""

    id: str
    owner: Slug
    name: str = ""
    state: RunState
    run_id: str | None
    model: str
    mode: TrainingMode
    environments: tuple[str, ...]  # owner/name@version
    labels: tuple[str, ...] = ()  # of all environments, including those only evaluated; used in metrics and the log
    step: int = 0  # finished steps
    max_steps: int
    # a TrainingConfig valid when it was submitted; today's rules may refuse it, so do not validate it
    config: StoredObject
    toml: str = ""  # as written; only in the detail view
    latest: StepMetrics | None = None
    best_reward: float | None = None
    evaluations: tuple[EvaluationPoint, ...] = ()  # only in the detail view
    health: tuple[HealthBadge, ...] = ()  # only in the detail view
    adapters: tuple[AdapterView, ...] = ()  # only in the detail view
    placement: str = ""  # for a run over several hosts: "on 2 hosts: 4 learner processes, 2 engines of 2 GPUs"
    waiting_for: str | None = None
    failure: Failure | None = None
    visibility: Visibility = Visibility.PRIVATE
    created_by: str
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    trace_id: str | None = None  # trace of its run; only in the detail view, for members of its owner

    @property
    def mastered(self) -> bool:
        """Whether it reached its goal before its last step, because nothing was left to learn."""
        return self.state is RunState.SUCCEEDED and self.step < self.max_steps


class TrainingRolloutRow(Response):
    """A rollout of a step, in a list."""

    step: int
    index: int
    environment: str
    example: int
    group: str
    outcome: Outcome
    reward: float | None
    advantage: float | None
    metrics: dict[str, float] = Field(default_factory=dict)
    admitted: bool = True
    dropped: str = ""
    failure_kind: FailureKind | None = None
    failure_message: str = ""
    asked: str = ""  # one-line texts of at most 160 characters, for lists
    answered: str = ""
    target: str = ""
    turns: int = 0
    completion_tokens: int = 0
    duration_s: float = 0.0
    version_min: int | None = None
    version_max: int | None = None
    labels: tuple[str, ...] = ()
