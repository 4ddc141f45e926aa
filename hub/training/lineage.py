"""Shows what was made from what: environment version and base model, training run, weights, deployment, evaluation.

The graph has five columns of a few boxes each, with edges from each column to the next. It contains only what the user
may see, newest first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from uuid import UUID

from django.db.models import Exists, OuterRef
from django.urls import reverse
from envhub.protocol.models.catalog import ModelSource
from envhub.protocol.runs import RunState

from hub.accounts.models import Role
from hub.accounts.queries import Caller, has_role
from hub.catalog.models import Model
from hub.catalog.queries import visible_models
from hub.core.numbers import minus
from hub.evals.models import Evaluation
from hub.evals.queries import visible_evaluations
from hub.evals.wire import evaluation_view
from hub.registry.models import Version
from hub.registry.queries import visible_environments
from hub.training.models import Adapter, TrainingRun, TrainingVersion, Use
from hub.training.queries import adapters_of, checkpoints_of, visible_training

MOST = 6  # boxes per column


@dataclass(frozen=True)
class Box:
    """One thing in the graph; `key` is unique among all boxes, `url` is "" if it has no page."""

    key: str
    title: str
    note: str
    url: str
    state: str = ""


@dataclass(frozen=True)
class Column:
    """Boxes under a title; `more`: whether there are others."""

    title: str
    boxes: tuple[Box, ...]
    more: bool = False


@dataclass(frozen=True)
class Lineage:
    """`edges` has the paths between each column and the next, in a box of 100 x `rows`; `here` is the key of a box."""

    columns: tuple[Column, ...]
    edges: tuple[tuple[str, ...], ...]
    rows: int
    here: str


@dataclass
class _Found:
    """Boxes and their connections, before they are placed."""

    columns: list[list[Box]]
    links: list[tuple[str, str]]
    more: list[bool]

    def add(self, column: int, box: Box, *sources: str) -> None:
        """Add a box, unless it is there already; if the column has MOST boxes, only record that there are more."""
        boxes = self.columns[column]
        if box.key not in {one.key for one in boxes}:
            if len(boxes) >= MOST:
                self.more[column] = True
                return
            boxes.append(box)
        self.links += [(source, box.key) for source in sources]


TITLES = ("From", "Training", "Weights", "Deployment", "Evaluations")


def lineage_of_run(user: Caller, training: TrainingRun) -> Lineage:
    """Return the lineage of a run that the user may see."""
    adapters = list(adapters_of(training).select_related(*_MODEL)[: MOST + 1])
    return _graph(user, [training], adapters, None, f"run-{training.pk}")


def lineage_of_model(user: Caller, model: Model) -> Lineage:
    """Return the lineage of a model that the user may see: where it comes from, and its evaluations."""
    adapter = Adapter.objects.filter(model=model).select_related(*_MODEL).first()
    made_by = adapter.training_id if adapter else None
    runs = list(visible_training(user).filter(pk=made_by)) if made_by else []
    return _graph(user, runs, [adapter] if adapter else [], None, f"model-{model.pk}", alone=model)


def lineage_of_version(user: Caller, version: Version) -> Lineage:
    """Return the lineage of a version that the user may see: the runs that trained on it, and what they made."""
    uses = TrainingVersion.objects.filter(training=OuterRef("pk"), version=version, use=Use.TRAIN)
    runs = list(visible_training(user).filter(Exists(uses))[: MOST + 1])
    adapters = Adapter.objects.filter(training__in=[run.pk for run in runs]).select_related(*_MODEL).order_by("-pk")
    return _graph(user, runs, list(adapters[: MOST + 1]), version, f"version-{version.pk}")


_MODEL = ("model__owner", "model__deployment__run")


def _graph(
    user: Caller,
    runs: Sequence[TrainingRun],
    adapters: Sequence[Adapter],
    version: Version | None,
    here: str,
    *,
    alone: Model | None = None,
) -> Lineage:
    found = _Found([[] for _ in TITLES], [], [False for _ in TITLES])
    if version is not None:
        found.add(0, _version_box(version))
    _add_runs(found, user, runs, version)
    seen = set(visible_models(user).filter(pk__in=[one.model_id for one in adapters]).values_list("pk", flat=True))
    for adapter in adapters:
        if adapter.model_id in seen:
            found.add(2, _weights_box(adapter), f"run-{adapter.training_id}")
    models = [adapter.model for adapter in adapters if adapter.model_id in seen]
    if alone is not None and not models:
        found.add(2, Box(f"model-{alone.pk}", alone.name, alone.owner.slug, _model_url(alone)))
        models = [alone]
    _add_deployments(found, user, models[:MOST])
    _add_evaluations(found, user, models[:MOST], version)
    return _placed(found, here)


def _add_runs(found: _Found, user: Caller, runs: Sequence[TrainingRun], only: Version | None) -> None:
    pinned = {run.pk: [item.version for item in run.versions.all() if item.use == Use.TRAIN] for run in runs}
    environments = {version.environment_id for versions in pinned.values() for version in versions}
    seen = set(visible_environments(user).filter(pk__in=environments).values_list("pk", flat=True))
    bases = _visible_bases(user, runs)
    for run in runs:
        versions = [one for one in pinned[run.pk] if one.environment_id in seen and only in (None, one)]
        boxes = [_version_box(one) for one in versions]
        if (base := bases.get(run.model_id)) is not None:
            boxes.append(Box(f"model-{base.pk}", base.name, "base model", _model_url(base)))
        for box in boxes:
            found.add(0, box)
        found.add(1, _run_box(run), *(box.key for box in boxes))
        if len(runs) == 1 and (checkpoint := checkpoints_of(run).first()) is not None:
            url = reverse("training-weights", args=[run.pk])
            box = Box(f"checkpoint-{checkpoint.pk}", f"step {checkpoint.step}", "newest checkpoint", url)
            found.add(2, box, f"run-{run.pk}")


def _visible_bases(user: Caller, runs: Iterable[TrainingRun]) -> Mapping[UUID | None, Model]:
    ids = [run.model_id for run in runs if run.model_id]
    return {row.pk: row for row in visible_models(user).prefetch_related(None).filter(pk__in=ids)} if ids else {}


def _add_deployments(found: _Found, user: Caller, models: Iterable[Model]) -> None:
    """Add a deployment for each model, since evaluations of weights need them served and edges pass through it."""
    for model in models:
        key, run = f"deployment-{model.pk}", getattr(getattr(model, "deployment", None), "run", None)
        if model.source != ModelSource.LOCAL.value:
            box = Box(key, "an endpoint", "outside this hub", "")
        elif run is None or not has_role(user, model.owner, Role.READER):
            box = Box(key, "not loaded", "it is when called", "")
        else:
            box = Box(key, "deployment", "", reverse("run", args=[run.pk]), RunState(run.state).value)
        found.add(3, box, f"model-{model.pk}")


def _add_evaluations(found: _Found, user: Caller, models: Iterable[Model], version: Version | None) -> None:
    named = {f"{model.owner.slug}/{model.name}": model.pk for model in models}
    if not named:
        return
    rows = visible_evaluations(user).filter(model_name__in=list(named))
    if version is not None:
        rows = rows.filter(environment=version.environment_id)
    for row in rows[: MOST + 1]:
        found.add(4, _evaluation_box(row), f"deployment-{named[row.model_name]}")


def _version_box(version: Version) -> Box:
    owner, name = version.environment.owner.slug, version.environment.name
    url = reverse("version", args=[owner, name, version.version])
    return Box(f"version-{version.pk}", f"{name}@{version.version}", owner, url)


def _run_box(run: TrainingRun) -> Box:
    note = f"step {run.step} of {run.max_steps}"
    return Box(
        f"run-{run.pk}", run.name or run.model_name, note, reverse("training-run", args=[run.pk]), state=run.state
    )


def _weights_box(adapter: Adapter) -> Box:
    kind = "adapter" if adapter.rank else "model"
    note = f"{kind}, step {adapter.step}"
    return Box(f"model-{adapter.model_id}", adapter.model.name, note, _model_url(adapter.model))


def _model_url(model: Model) -> str:
    return reverse("model", args=[model.owner.slug, model.name])


def _evaluation_box(row: Evaluation) -> Box:
    reward = evaluation_view(row).summary.reward
    version = f"@{row.version.version}" if row.version else ""
    title = minus(f"{reward.mean:.3f}") if reward else "no score"
    note = f"{row.environment.name}{version}"
    return Box(f"evaluation-{row.pk}", title, note, reverse("evaluation", args=[row.pk]), state=row.state)


def _placed(found: _Found, here: str) -> Lineage:
    rows = max(len(boxes) + more for boxes, more in zip(found.columns, found.more, strict=True))
    places = [{box.key: place for place, box in enumerate(boxes)} for boxes in found.columns]
    edges = tuple(
        tuple(
            _edge(left[source], right[target])
            for source, target in dict.fromkeys(found.links)
            if source in left and target in right
        )
        for left, right in pairwise(places)
    )
    columns = tuple(
        Column(title, tuple(boxes), more) for title, boxes, more in zip(TITLES, found.columns, found.more, strict=True)
    )
    return Lineage(columns, edges, max(1, rows), here)


def _edge(left: int, right: int) -> str:
    """Return the path from the middle of one box to that of another: a curve with horizontal ends."""
    y, end = left + 0.5, right + 0.5
    return f"M0 {y:g}C50 {y:g} 50 {end:g} 100 {end:g}"
