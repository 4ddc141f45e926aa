"""Training runs, the JSON metrics of each step, the slim index over its rollouts, checkpoints, adapters."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from envhub.protocol.evals.rollouts import Outcome
from envhub.protocol.runs import RunState
from envhub.protocol.training.trainer import TrainingMode
from envhub.protocol.visibility import Visibility

from hub.accounts.models import Owner
from hub.catalog.models import Model
from hub.core.ids import new_id
from hub.evals.models import SNIPPET, Label, Note, SavedRolloutView
from hub.registry.models import Version
from hub.runs.models import Run
from hub.storage.models import Blob


class TrainingRun(models.Model):
    """One model being trained. `state` follows its run (hub.training.services.lifecycle)."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    owner = models.ForeignKey(Owner, on_delete=models.CASCADE, related_name="training_runs")
    run = models.OneToOneField(Run, null=True, blank=True, on_delete=models.SET_NULL, related_name="training")
    name = models.CharField(max_length=100, blank=True)
    adapter_name = models.CharField(max_length=100)  # name of the adapters that it adds to the catalog
    model_name = models.CharField(max_length=255)  # as in the configuration
    model = models.ForeignKey(Model, null=True, blank=True, on_delete=models.PROTECT, related_name="training_runs")
    # Of the model's files (and its base's) when the run was submitted; empty without a `model`.
    model_digest = models.CharField(max_length=64, blank=True, default="", db_default="")
    repository = models.CharField(max_length=200, blank=True)  # in the Hugging Face cache, if there is no `model`
    revision = models.CharField(max_length=40, blank=True)
    parameters = models.BigIntegerField(null=True, blank=True)  # number of the model's parameters
    engine = models.CharField(max_length=8)  # the engine that serves it, unless the configuration names another
    mode = models.CharField(max_length=4, choices=[(item.value, item.value) for item in TrainingMode])
    warm_start = models.ForeignKey(
        "Checkpoint", null=True, blank=True, on_delete=models.PROTECT, related_name="successors"
    )
    state = models.CharField(max_length=10, choices=[(item.value, item.value) for item in RunState])
    visibility = models.CharField(
        max_length=8, choices=[(item.value, item.value) for item in Visibility], default=Visibility.PRIVATE.value
    )
    config = models.JSONField()  # envhub.protocol.training.config.TrainingConfig
    toml = models.TextField(blank=True)
    encrypted_env = models.TextField(blank=True)  # a JSON object with the secrets of the submission
    max_steps = models.PositiveIntegerField()
    step = models.PositiveIntegerField(default=0)  # the last one reported
    latest = models.JSONField(null=True, blank=True)  # the StepMetrics of that step
    best_reward = models.FloatField(null=True, blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    finished_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["owner", "adapter_name"], name="training_adapter_name_once")]
        indexes = [
            models.Index(fields=["owner", "-id"], name="training_by_owner"),
            models.Index(fields=["model_name", "-id"], name="training_by_model"),
        ]

    def __str__(self) -> str:
        return self.name or str(self.pk)

    @property
    def is_final(self) -> bool:
        """Whether nothing more will be added, unless it is resumed."""
        return RunState(self.state).is_final


class Use(models.TextChoices):
    """How a run uses an environment."""

    TRAIN = "train"
    EVAL = "eval"


class TrainingVersion(models.Model):
    """An environment version of a run, pinned on submission; `position` is that of its table in the TOML."""

    training = models.ForeignKey(TrainingRun, on_delete=models.CASCADE, related_name="versions")
    use = models.CharField(max_length=5, choices=Use)
    position = models.PositiveSmallIntegerField()
    label = models.CharField(max_length=200)
    version = models.ForeignKey(Version, on_delete=models.PROTECT, related_name="+")

    class Meta:
        ordering = ["training", "-use", "position"]
        constraints = [models.UniqueConstraint(fields=["training", "use", "position"], name="training_version_once")]

    def __str__(self) -> str:
        return self.label


class Step(models.Model):
    """The metrics of one step."""

    id = models.BigAutoField(primary_key=True)
    training = models.ForeignKey(TrainingRun, on_delete=models.CASCADE, related_name="steps", db_index=False)
    step = models.PositiveIntegerField()
    metrics = models.JSONField()  # envhub.protocol.training.metrics.StepMetrics

    class Meta:
        constraints = [models.UniqueConstraint(fields=["training", "step"], name="training_step_once")]

    def __str__(self) -> str:
        return str(self.step)


class StepSegment(models.Model):
    """One Parquet file of a step's rollouts (envhub.packaging.segments)."""

    id = models.BigAutoField(primary_key=True)
    step = models.ForeignKey(Step, on_delete=models.CASCADE, related_name="segments")
    blob = models.ForeignKey(Blob, on_delete=models.PROTECT, related_name="+")

    def __str__(self) -> str:
        return str(self.pk)


class TrainingRollout(models.Model):
    """The slim row of one rollout of a step."""

    id = models.BigAutoField(primary_key=True)
    step = models.ForeignKey(Step, on_delete=models.CASCADE, related_name="rollouts", db_index=False)
    index = models.PositiveIntegerField()
    environment = models.CharField(max_length=200)  # the label of its environment
    example = models.PositiveIntegerField()
    group = models.CharField(max_length=64)
    outcome = models.CharField(max_length=10, choices=[(item.value, item.value) for item in Outcome])
    failure_kind = models.CharField(max_length=16, blank=True)
    failure_message = models.CharField(max_length=300, blank=True)
    asked = models.CharField(max_length=SNIPPET, blank=True, default="", db_default="")
    answered = models.CharField(max_length=SNIPPET, blank=True, default="", db_default="")
    target = models.CharField(max_length=SNIPPET, blank=True, default="", db_default="")
    reward = models.FloatField(null=True, blank=True)
    advantage = models.FloatField(null=True, blank=True)
    metrics = models.JSONField(default=dict)
    admitted = models.BooleanField(default=True)
    dropped = models.CharField(max_length=32, blank=True)
    turns = models.PositiveIntegerField(default=0)
    completion_tokens = models.BigIntegerField(default=0)
    duration_s = models.FloatField(default=0.0, db_default=0.0)
    version_min = models.IntegerField(null=True, blank=True)
    version_max = models.IntegerField(null=True, blank=True)
    segment = models.ForeignKey(StepSegment, on_delete=models.CASCADE, related_name="rows")
    row_group = models.PositiveSmallIntegerField()
    row = models.PositiveSmallIntegerField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["step", "index"], name="training_rollout_once")]
        indexes = [models.Index(fields=["step", "environment", "example"], name="training_rollout_by_example")]

    def __str__(self) -> str:
        return str(self.index)


class TrainingLabel(Label):
    """A label on a rollout of a training run; without a constraint or a cascade, as for evaluations."""

    training = models.ForeignKey(TrainingRun, on_delete=models.CASCADE, related_name="+", db_index=False)
    rollout = models.ForeignKey(
        TrainingRollout, on_delete=models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False
    )

    class Meta:
        constraints = [models.UniqueConstraint(fields=["rollout", "name"], name="training_label_once")]
        indexes = [
            models.Index(fields=["training", "name", "rollout"], name="training_label_by_name"),
            models.Index(fields=["owner", "-id"], name="training_label_by_owner"),
        ]


class TrainingNote(Note):
    """A note on a rollout of a training run."""

    training = models.ForeignKey(TrainingRun, on_delete=models.CASCADE, related_name="+", db_index=False)
    rollout = models.ForeignKey(
        TrainingRollout, on_delete=models.DO_NOTHING, related_name="+", db_constraint=False, db_index=False
    )

    class Meta:
        indexes = [
            models.Index(fields=["rollout", "id"], name="training_note_by_rollout"),
            models.Index(fields=["training", "id"], name="training_note_by_training"),
        ]


class SavedTrainingView(SavedRolloutView):
    """A saved filter for all training runs of an owner (hub.training.rollout_filter)."""

    class Meta:
        constraints = [models.UniqueConstraint(fields=["owner", "name"], name="saved_training_view_once")]


class TrainingEvaluation(models.Model):
    """An evaluation of the policy during training."""

    training = models.ForeignKey(TrainingRun, on_delete=models.CASCADE, related_name="evaluations", db_index=False)
    step = models.PositiveIntegerField()
    label = models.CharField(max_length=200)
    point = models.JSONField()  # envhub.protocol.training.metrics.EvaluationPoint

    class Meta:
        constraints = [models.UniqueConstraint(fields=["training", "step", "label"], name="training_evaluation_once")]

    def __str__(self) -> str:
        return f"{self.label} at {self.step}"


class Checkpoint(models.Model):
    """The complete state of a run after a step."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    training = models.ForeignKey(TrainingRun, on_delete=models.CASCADE, related_name="checkpoints", db_index=False)
    step = models.PositiveIntegerField()
    size = models.BigIntegerField(default=0)
    file_count = models.PositiveIntegerField(default=0)
    final = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["training", "step"], name="training_checkpoint_once")]

    def __str__(self) -> str:
        return f"step {self.step}"


class CheckpointFile(models.Model):
    """One file of a checkpoint."""

    checkpoint = models.ForeignKey(Checkpoint, on_delete=models.CASCADE, related_name="files", db_index=False)
    path = models.CharField(max_length=255)
    blob = models.ForeignKey(Blob, on_delete=models.PROTECT, related_name="+")

    class Meta:
        ordering = ["checkpoint", "path"]
        constraints = [models.UniqueConstraint(fields=["checkpoint", "path"], name="checkpoint_file_once")]

    def __str__(self) -> str:
        return self.path


class Adapter(models.Model):
    """Weights that a run has added to the catalog: a LoRA adapter, or a whole model. They outlive the run."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    training = models.ForeignKey(
        TrainingRun, null=True, blank=True, on_delete=models.SET_NULL, related_name="adapters", db_index=False
    )
    model = models.OneToOneField(Model, on_delete=models.CASCADE, related_name="adapter")
    step = models.PositiveIntegerField()
    mode = models.CharField(max_length=4, choices=[(item.value, item.value) for item in TrainingMode])
    base_name = models.CharField(max_length=255)  # the model from which it was trained
    rank = models.PositiveIntegerField(null=True, blank=True)
    alpha = models.FloatField(null=True, blank=True)
    size = models.BigIntegerField(default=0)
    reward_mean = models.FloatField(null=True, blank=True)
    final = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["training", "step"], name="training_adapter_once")]

    def __str__(self) -> str:
        return f"step {self.step}"
