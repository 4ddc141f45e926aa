"""Finds the model that a configuration names: in the catalog, or in the Hugging Face cache at a pinned revision."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from envhub.protocol.training.config import TrainingConfig
from envhub.protocol.training.estimate import SMALL
from envhub.protocol.training.shapes import ModelShape, shape_of_config
from envhub.protocol.visibility import Visibility

from hub.accounts.models import Owner, User
from hub.catalog.contents import CONFIG, WEIGHTS, read_config, shape_of
from hub.catalog.models import Model, ModelFile
from hub.catalog.queries import visible_models
from hub.catalog.services import register_local
from hub.catalog.wire import fingerprint
from hub.core.errors import Conflict, HubError, Invalid, NotFound
from hub.data.models import RepositoryKind, Snapshot
from hub.data.queries import files_below, find
from hub.data.services import blob_of, resolve
from hub.training.models import TrainingRun
from hub.training.services.adapter_fit import check_adapter


@dataclass(frozen=True)
class PolicyModel:
    """The model to train: a `model` of the catalog, or a repository."""

    engine: str
    parameters: int | None
    model: Model | None = None
    repository: str = ""
    revision: str = ""

    def fields(self) -> dict[str, Any]:
        """Return the columns of a TrainingRun."""
        return {
            "engine": self.engine,
            "parameters": self.parameters,
            "model": self.model,
            "model_digest": digest_of(self.model) if self.model else "",
            "repository": self.repository,
            "revision": self.revision,
        }


def find_policy_model(*, user: User, owner: Owner, config: TrainingConfig) -> PolicyModel:
    """Find the model of a configuration: "owner/name" (or "name" of the run's owner), or a Hugging Face id.

    Raises NotFound, Invalid (it cannot be trained), Unavailable (the Hugging Face endpoint is unreachable).
    """
    reference = config.model
    owner_slug, slash, name = reference.partition("/")
    wanted = {"owner__slug": owner_slug, "name": name} if slash else {"owner": owner, "name": reference}
    model = visible_models(user).filter(**wanted).first()
    if model is None:
        return _of_repository(reference)
    if not model.trainable:
        raise Invalid(
            f"{reference} cannot be trained: it is not a model directory with config.json and safetensors",
            code="not_trainable",
            hint="`hub model list` shows what can be trained; `hub model import-dir` uploads a directory",
            fields={"model": reference},
        )
    if model.base is not None:
        check_adapter(model, config)
    return PolicyModel(engine=model.engine, parameters=model.parameters, model=model)


def policy_shape(training: TrainingRun) -> ModelShape | None:
    """Return the shape of the whole model that the run trains, for sizing GPUs; None if its config.json lacks it."""
    if training.model is not None:
        return shape_of(training.model)
    snapshot = find(RepositoryKind.MODEL.value, training.repository, training.revision)
    return None if snapshot is None else shape_of_config(read_config(blob_of(snapshot=snapshot, path=CONFIG)))


def digest_of(model: Model) -> str:
    """Return what changes when somebody replaces the files of a model or of its base."""
    rows = ModelFile.objects.filter(model__in=[model.pk, *([model.base_id] if model.base_id else [])])
    return fingerprint({f"{of}/{path}": blob for of, path, blob in rows.values_list("model_id", "path", "blob_id")})


def require_unchanged(training: TrainingRun) -> None:
    """Raises Conflict (`model_changed`) if the model's files are not those with which the run was submitted."""
    if training.model is not None and training.model_digest not in ("", digest_of(training.model)):
        raise Conflict(
            f"the files of {training.model_name} have been replaced since the run was submitted",
            code="model_changed",
            hint="start a new run; its own checkpoints stay, but they continue the files of before",
        )


def _of_repository(reference: str) -> PolicyModel:
    try:
        snapshot = resolve(kind=RepositoryKind.MODEL.value, repository=reference, revision="main")
    except (NotFound, Invalid) as error:
        raise NotFound(
            f"no model {reference}, neither in the catalog nor in this hub's Hugging Face cache",
            code="model_not_found",
            hint=f"`hub model list` shows what can be trained here. {error.hint}".strip(),
            fields={"model": reference[:200]},
        ) from error
    paths = set(files_below(snapshot, "").values_list("path", flat=True))
    if CONFIG not in paths or not any(path.endswith(WEIGHTS) and "/" not in path for path in paths):
        raise Invalid(
            f"{reference} cannot be trained: it has no {CONFIG} with safetensors next to it",
            code="not_trainable",
            fields={"model": reference},
        )
    shape = shape_of_config(read_config(blob_of(snapshot=snapshot, path=CONFIG)))
    parameters = shape.parameters if shape else None
    return PolicyModel(
        engine="torch" if parameters is not None and parameters < SMALL else "vllm",
        parameters=parameters,
        repository=snapshot.repository,
        revision=snapshot.revision,
    )


def base_of(training: TrainingRun, system: Owner) -> Model:
    """Return the catalog model that the run's adapters belong to; for a repository, create it from the cached files.

    Raises Conflict if the repository has been removed in the meantime.
    """
    if training.model is not None:
        return training.model.base or training.model
    snapshot = find(RepositoryKind.MODEL.value, training.repository, training.revision)
    if snapshot is None:
        raise Conflict(f"{training.repository} is no longer in this hub", code="model_gone")
    name = f"{training.repository.replace('/', '--').lower()}-{training.revision[:8]}"[:128]
    known = Model.objects.filter(owner=system, name=name).first()
    return known or _keep_base(snapshot, system, name, training.engine)


def _keep_base(snapshot: Snapshot, system: Owner, name: str, engine: str) -> Model:
    files = {
        file.path: str(file.blob_id) for file in files_below(snapshot, "") if file.blob_id and "/" not in file.path
    }
    if not any(path.endswith(WEIGHTS) for path in files):
        raise HubError(f"the weights of {snapshot.repository} are not in this hub", code="model_gone")
    return register_local(owner=system, name=name, engine=engine, files=files, visibility=Visibility.PUBLIC)
