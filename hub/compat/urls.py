"""Routes below /prime: the calls of Prime's clients under PRIME_API_BASE_URL, and the pages that they link to."""

from django.urls import URLPattern, URLResolver, path, re_path, register_converter

from hub.compat import pages
from hub.compat.api import (
    accounts,
    adapters,
    environments,
    evaluations,
    images,
    other,
    pushes,
    sandboxes,
    secrets,
    training,
)
from hub.compat.names import PREFIX, EnvironmentIdConverter

register_converter(EnvironmentIdConverter, "environment")
_API = f"{PREFIX}api/v1/"
_HUB = f"{_API}environmentshub"
_ID = f"{_HUB}/<environment:environment>"
_NAMED = f"{_HUB}/<str:owner>/<str:name>"
_VERSION = f"{_NAMED}/@<str:version>"
_EVALUATION = "evaluations/<id:evaluation_id>"
_RUN = f"{_API}rft/runs/<id:training_id>"
_ADAPTER = f"{_API}rft/adapters/<slug:owner>/<str:model>"
_SANDBOX = f"{_API}sandbox/<id:sandbox_id>"

api_urls: list[URLPattern | URLResolver] = []
page_urls: list[URLPattern | URLResolver] = [
    path(f"{_API}auth_challenge/generate", accounts.login_begin),
    path(f"{_API}auth_challenge/status", accounts.login_status),
    path(f"{_API}user/whoami", accounts.whoami),
    path(f"{_API}user/slug", accounts.slug),
    path(f"{_API}user/teams", accounts.teams),
    path(f"{_API}teams/<slug:team>/members", accounts.team_members),
    path(f"{_HUB}/", environments.environment_list),
    path(f"{_HUB}/resolve", pushes.resolve),
    path(f"{_HUB}/lookup", pushes.lookup),
    path(_ID, environments.environment_delete_by_id),
    path(f"{_ID}/wheels", pushes.wheels),
    path(f"{_ID}/wheels/<uuid:wheel_id>/finalize", pushes.wheel_finalize),
    path(f"{_ID}/versions", pushes.versions),
    path(f"{_ID}/versions/<uuid:version_id>/finalize", pushes.version_finalize),
    path(f"{_ID}/<path:rest>", other.not_of_an_environment),
    path(_NAMED, environments.environment_delete),
    path(f"{_NAMED}/status", environments.environment_status),
    path(f"{_NAMED}/versions", environments.version_list),
    path(f"{_NAMED}/fork", environments.environment_fork),
    path(_VERSION, environments.environment_version),
    path(f"{_VERSION}/source", environments.version_source),
    path(f"{_VERSION}/inspect", environments.version_inspect),
    path(f"{_API}evaluations/", evaluations.evaluations),
    path(f"{_API}{_EVALUATION}", evaluations.evaluation),
    path(f"{_API}{_EVALUATION}/samples", evaluations.samples),
    path(f"{_API}{_EVALUATION}/finalize", evaluations.finalize),
    path(f"{_API}hosted-evaluations", evaluations.hosted),
    path(f"{_API}hosted-{_EVALUATION}/logs", evaluations.hosted_logs),
    path(f"{_API}hosted-{_EVALUATION}/cancel", evaluations.hosted_cancel),
    path(f"{_API}traces", evaluations.traces),
    path(f"{_API}secrets/", secrets.secret_list),
    path(f"{_API}secrets/<str:secret_id>", secrets.secret_detail),
    path(f"{_API}rft/models", training.model_list),
    path(f"{_API}rft/runs", training.run_list),
    path(_RUN, training.run),
    path(f"{_RUN}/stop", training.run_stop),
    path(f"{_RUN}/restart", training.run_restart),
    path(f"{_RUN}/logs", training.run_logs),
    path(f"{_RUN}/env-server-logs", training.run_environment_logs),
    path(f"{_RUN}/env-servers", training.run_components),
    path(f"{_RUN}/metrics", training.run_metrics),
    path(f"{_RUN}/samples", training.run_samples),
    path(f"{_RUN}/progress", training.run_progress),
    path(f"{_RUN}/distributions", training.run_distributions),
    path(f"{_RUN}/checkpoints", training.run_checkpoints),
    path(f"{_API}rft/adapters", adapters.adapter_list),
    path(_ADAPTER, adapters.adapter),
    path(f"{_ADAPTER}/deploy", adapters.adapter_deploy),
    path(f"{_ADAPTER}/unload", adapters.adapter_unload),
    path(f"{_API}rft/checkpoints/<id:checkpoint_id>/deploy", adapters.checkpoint_deploy),
    path(f"{_API}rft/deployable-models", adapters.deployable_models),
    path(f"{_API}sandbox", sandboxes.sandbox_list),
    path(f"{_API}sandbox/status:batchGet", sandboxes.sandbox_statuses),
    path(_SANDBOX, sandboxes.sandbox),
    path(f"{_SANDBOX}/auth", sandboxes.sandbox_auth),
    path(f"{_SANDBOX}/logs", sandboxes.sandbox_logs),
    path(f"{_SANDBOX}/error-context", sandboxes.sandbox_error_context),
    path(f"{_SANDBOX}/egress-policy", sandboxes.sandbox_egress_policy),
    path(f"{_API}sandbox/expose/all", sandboxes.exposed_ports),
    path(f"{_SANDBOX}/expose", sandboxes.sandbox_expose),
    path(f"{_SANDBOX}/expose/<id:port_id>", sandboxes.sandbox_unexpose),
    path(f"{_API}images", images.image_list),
    path(f"{_API}images/build", images.image_build_list),
    path(f"{_API}images/build/<uuid:build_id>", images.image_build),
    path(f"{_API}images/build/<uuid:build_id>/start", images.image_build_start),
    re_path(rf"^{_API}(?P<rest>images/.+/vm-build)$", other.not_offered),
    path(f"{_API}images/<path:image>/<str:tag>", images.image_detail),
    path(f"{_API}<path:rest>", other.not_offered),
    path(f"{PREFIX}image-contexts/<str:grant>", images.image_context),
    path(f"{PREFIX}uploads/<str:grant>", pushes.upload),
    path(f"{PREFIX}dashboard/tokens/challenge", pages.challenge),
    path(f"{PREFIX}dashboard/environments/<str:owner>/<str:name>", pages.environment),
    path(f"{PREFIX}dashboard/{_EVALUATION}", pages.evaluation),
    path(f"{PREFIX}dashboard/training/<id:training_id>", pages.training),
]
