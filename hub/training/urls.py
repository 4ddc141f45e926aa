"""Routes of the training app."""

from django.urls import URLPattern, URLResolver, path

from hub.training import annotation_api, api, reports, worker_api
from hub.training.pages import annotations, compare, lineage, listing, model, new, reader, rollouts, run, sides

_RUN = "training/<id:training_id>"
_ROLLOUT = f"{_RUN}/rollouts/<int:step>/<int:index>"

api_urls: list[URLPattern | URLResolver] = [
    path("training", api.training_runs),
    path("training/<id:training_id>", api.training_run),
    path("training/<id:training_id>/stop", api.training_stop),
    path("training/<id:training_id>/resume", api.training_resume),
    path("training/<id:training_id>/metrics", api.training_metrics),
    path("training/<id:training_id>/rollouts", api.training_rollouts),
    path("training/<id:training_id>/rollouts/<int:step>/<int:index>", api.training_rollout),
    path(f"{_ROLLOUT}/labels/<str:label>", annotation_api.training_label),
    path(f"{_ROLLOUT}/notes", annotation_api.training_notes),
    path(f"{_ROLLOUT}/notes/<id:note_id>", annotation_api.training_note),
    path("training/<id:training_id>/labels", annotation_api.training_labels),
    path("training/<id:training_id>/views", annotation_api.training_views),
    path("training/<id:training_id>/views/<id:view_id>", annotation_api.training_view),
    path("training/<id:training_id>/export", api.training_export),
    path("training/<id:training_id>/fingerprint", reports.fingerprint_of_training),
    path("training/<id:training_id>/beginning", worker_api.training_beginning),
    path("training/<id:training_id>/steps", worker_api.training_steps),
    path("training/<id:training_id>/evaluations", worker_api.training_evaluations),
    path("training/<id:training_id>/checkpoints", worker_api.training_checkpoints),
    path("training/<id:training_id>/adapters", worker_api.training_adapters),
]
page_urls: list[URLPattern | URLResolver] = [
    path("training", listing.training_list, name="training"),
    path("training/new", new.training_new, name="training-new"),
    path("training/compare", compare.training_compare, name="training-compare"),
    path(_RUN, run.training_run, name="training-run"),
    path(f"{_RUN}/numbers", run.training_numbers, name="training-numbers"),
    path(f"{_RUN}/rollouts", rollouts.training_rollouts, name="training-rollouts"),
    path(f"{_RUN}/rollouts/compare", sides.training_sides, name="training-sides"),
    path(_ROLLOUT, reader.training_rollout, name="training-rollout"),
    path(f"{_ROLLOUT}/pictures/<int:number>/<int:picture>", reader.training_picture, name="training-picture"),
    path(f"{_ROLLOUT}/label", annotations.training_label, name="training-label"),
    path(f"{_ROLLOUT}/note", annotations.training_note, name="training-note"),
    path(f"{_ROLLOUT}/note/<id:note_id>", annotations.training_note_change, name="training-note-change"),
    path(f"{_RUN}/views", annotations.view_save, name="training-view-save"),
    path(f"{_RUN}/views/<id:view_id>/delete", annotations.view_delete, name="training-view-delete"),
    path(f"{_RUN}/weights", run.training_weights, name="training-weights"),
    path(f"{_RUN}/configuration", run.training_configuration, name="training-configuration"),
    path(f"{_RUN}/lineage", lineage.training_lineage, name="training-lineage"),
    path(f"{_RUN}/report", reports.training_report_page, name="training-report"),
    path(f"{_RUN}/log", run.training_log, name="training-log"),
    path(f"{_RUN}/stop", listing.training_stop, name="training-stop"),
    path(f"{_RUN}/resume", listing.training_resume, name="training-resume"),
    path(f"{_RUN}/share", listing.training_share, name="training-share"),
    path("environments/<str:owner>/<str:name>/training", listing.environment_training, name="environment-training"),
    path(
        "environments/<str:owner>/<str:name>/versions/<str:version>/lineage",
        lineage.version_lineage,
        name="version-lineage",
    ),
    path("models/<slug:owner>/<str:name>/lineage", lineage.model_lineage, name="model-lineage"),
    path("models/<slug:owner>/<str:name>", model.model_detail, name="model"),
]
