"""Wire types of evaluations: configuration, the worker's payload, segments of rollouts, summaries."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from pydantic import Field

from envhub.protocol.base import (
    BlobRef,
    BoxObject,
    Content,
    Count,
    JsonObject,
    Number,
    Request,
    Response,
    Seconds,
    Sha256,
    Size,
    Slug,
    Split,
    StoredObject,
    Whole,
)
from envhub.protocol.evals.replays import Replay
from envhub.protocol.evals.rollouts import Outcome, Usage
from envhub.protocol.models.catalog import EndpointTarget
from envhub.protocol.registry.builds import EnvironmentLock
from envhub.protocol.registry.packages import GenerationEvidence
from envhub.protocol.runs import FailureKind, RunState
from envhub.protocol.visibility import Visibility


class EvaluationSource(StrEnum):
    """Where results come from. `hosted`: run in this hub's sandbox; `pushed`: reported by the uploader."""

    HOSTED = "hosted"
    PUSHED = "pushed"


class EvaluationConfig(Request):
    """What to evaluate and how. The CLI, the TOML form and the API all use this type."""

    environment: str  # "owner/name" or "owner/name@version"
    model: str  # "hub/tiny", "owner/endpoint-name", or an adapter
    num_examples: int = Field(default=5, ge=-1, le=2_000_000)  # -1: all
    rollouts_per_example: int = Field(default=3, ge=1, le=1024)
    env_args: JsonObject = Field(default_factory=dict)
    taskset: JsonObject | None = None  # [eval.taskset]
    harness: JsonObject | None = None  # [eval.harness]
    sampling: JsonObject = Field(default_factory=dict)
    concurrency: int = Field(default=64, ge=1, le=16_384)  # rollouts in flight, over all workers together
    max_retries: int = Field(default=2, ge=0, le=10)  # per rollout, after infrastructure failures
    timeout_s: Seconds | None = 600.0  # wall seconds for each rollout
    state_columns: tuple[str, ...] = ()
    seed: Whole | None = None
    split: Split = "eval"
    name: str = ""
    judges: dict[str, str] = Field(
        default_factory=dict
    )  # model name that the environment asks for ("*": any other) -> registered model
    secrets: tuple[str, ...] = ()  # names of the starter's secrets that are granted to the run
    allow_hosts: tuple[str, ...] = ()  # host:port that the box may reach, if the operator allows it
    visibility: Visibility | None = None  # None: public if environment and model are, and the hub ran it
    # Begins the rollouts of one example as a stored rollout did. Left out of the JSON if there is none, because workers
    # of an earlier release refuse unknown fields.
    replay: Replay | None = Field(default=None, exclude_if=lambda replay: replay is None)


class EvalPayload(Response):
    """`Claim.payload` of an evaluation run."""

    evaluation_id: str
    environment: str  # owner/name@version
    env_id: str  # name of the distribution
    module: str
    evidence: GenerationEvidence
    lock: EnvironmentLock  # with presigned wheel URLs
    config: EvaluationConfig
    target: EndpointTarget  # where policy calls go, with its key; never enters the box
    judges: dict[str, EndpointTarget] = Field(default_factory=dict)
    secrets: dict[str, str] = Field(default_factory=dict)  # injected into the box
    first: bool = True  # this is the evaluation's own run; others joined it (envhub.protocol.evals.shards)
    data_url: str | None = None  # the hub's Hugging Face cache, for the box's HF_ENDPOINT
    tries_harness: bool = False  # no check of the version used this harness, so its needs are tested before any rollout


class IndexRow(Request):
    """The index row of one rollout: all that lists, filters and statistics need."""

    example: Count
    rollout: int = Field(ge=0, lt=2**15)
    example_hash: str = Field(pattern=r"^[0-9A-Za-z]{0,64}$")
    content_hash: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")  # envhub.packaging.example_content
    outcome: Outcome
    reward: Number | None = None
    metrics: dict[str, Number] = Field(default_factory=dict)
    failure_kind: FailureKind | None = None
    failure_message: str = ""
    asked: str = ""  # one-line texts, see envhub.packaging.snippets
    answered: str = ""
    target: str = ""
    turns: Count = 0
    usage: Usage = Usage()
    judge_usage: Usage = Usage()
    duration_s: Number = 0.0
    row_group: int = Field(default=0, ge=0, lt=2**15)
    row: int = Field(default=0, ge=0, lt=2**15)  # within the row group


# larger segments are uploaded separately; a smaller one travels within its request, one call instead of three
INLINE_BYTES = 4 * 1024 * 1024


class SegmentRequest(Request):
    """A Parquet segment with the index rows of its rollouts. Idempotent on (evaluation, example, rollout).

    content: the segment itself (base64 on the wire) if it has at most INLINE_BYTES. Without it, the segment has been
    uploaded.
    """

    sha256: Sha256
    size: Size
    content: Content | None = Field(default=None, repr=False)
    rows: tuple[IndexRow, ...] = Field(max_length=1024)
    total_rollouts: Count | None = None  # planned number, once the worker knows the size of the data set


class SegmentReply(Response):
    """The number of new rows."""

    stored: int


class PassAtK(Response):
    """Unbiased estimate of solving an example within k attempts, with its standard error over examples.

    bound: how far off the estimate may be if all examples agree, when the standard error says nothing (95 %, one-sided,
    Clopper & Pearson 1934).
    """

    k: int
    value: float
    std_error: float | None = None
    examples: int = 0  # number of examples averaged
    bound: float | None = None


class MetricSummary(Response):
    """A metric over all scored rollouts. The standard error is clustered by example.

    bound: for a reward, how far off the mean may be if all rollouts have 0 or all have 1, when the standard error says
    nothing. It holds if rewards are between 0 and 1 (95 %, one-sided, Clopper & Pearson 1934, over examples).
    """

    name: str
    mean: float
    std_error: float | None = None
    count: int
    bound: float | None = None

    @property
    def limit(self) -> float | None:
        """The end of the interval that `bound` gives: below a mean of 1, above a mean of 0."""
        if self.bound is None:
            return None
        return self.mean - self.bound if self.mean else self.bound


class EvaluationSummary(Response):
    """The statistics of an evaluation. `reward` is None until a rollout has been scored."""

    planned: int
    stored: int
    scored: int  # with outcome ok or truncated
    outcomes: dict[str, int] = Field(default_factory=dict)  # ok, truncated, and failures by kind
    reward: MetricSummary | None = None
    pass_at_k: tuple[PassAtK, ...] = ()  # while the run lasts, over the examples with all their rollouts
    metrics: tuple[MetricSummary, ...] = ()
    usage: Usage = Usage()
    judge_usage: Usage = Usage()
    cost: float | None = None  # US dollars, by the prices when it began; None if its models have no price
    histogram: tuple[int, ...] = ()  # rollouts by reward, in equal bins over [histogram_min, histogram_max]
    histogram_min: float = 0.0
    histogram_max: float = 1.0


class EvaluationView(Response):
    """An evaluation."""

    id: str
    owner: Slug
    environment: str  # owner/name
    version: str | None
    model: str
    name: str = ""
    source: EvaluationSource
    state: RunState
    run_id: str | None
    visibility: Visibility = Visibility.PRIVATE
    # an EvaluationConfig valid when it was submitted; today's rules may refuse it, so do not validate it
    config: StoredObject
    summary: EvaluationSummary
    created_by: str
    created_at: datetime
    finished_at: datetime | None = None
    trace_id: str | None = None  # trace of its run; only in the detail view, for members of its owner


class RolloutRow(Response):
    """A rollout in a list."""

    id: str
    example: int
    rollout: int
    outcome: Outcome
    reward: float | None
    metrics: dict[str, float] = Field(default_factory=dict)
    failure_kind: FailureKind | None = None
    failure_message: str = ""
    asked: str = ""  # the beginning of the prompt's last message
    answered: str = ""  # the end of the model's last message
    target: str = ""  # the beginning of the data set's answer
    turns: int = 0
    usage: Usage = Usage()
    cost: float | None = None  # US dollars; None if its models have no price
    duration_s: float = 0.0
    labels: tuple[str, ...] = ()


class EvaluationPush(Request):
    """Start an upload of results produced elsewhere.

    `fingerprint` (SHA-256 of the results) makes a second push a no-op.
    """

    environment: str
    model: str
    fingerprint: Sha256
    config: EvaluationConfig
    format: str  # "results.jsonl" or "traces.jsonl"
    metadata: BoxObject = Field(default_factory=dict)


class SegmentBlob(Response):
    """A stored segment, for exports and pulls."""

    blob: BlobRef
    rollouts: int
