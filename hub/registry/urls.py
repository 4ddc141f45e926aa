"""Routes of the registry: the API, and the package index beside it."""

from django.urls import URLPattern, URLResolver, path

from hub.registry import fork_pages, index, pages, upload_pages
from hub.registry.api import builds, environments, versions

_ENVIRONMENT = "environments/<str:owner>/<str:name>"
_VERSION = f"{_ENVIRONMENT}/versions/<str:version>"

api_urls: list[URLPattern | URLResolver] = [
    path("environments", environments.environment_list),
    path(_ENVIRONMENT, environments.environment_detail),
    path(f"{_ENVIRONMENT}/archive", environments.environment_archive),
    path(f"{_ENVIRONMENT}/move", environments.environment_move),
    path(f"{_ENVIRONMENT}/forks", environments.environment_forks),
    path(f"{_ENVIRONMENT}/star", environments.environment_star),
    path(f"{_ENVIRONMENT}/pushes", environments.push_begin),
    path(f"{_ENVIRONMENT}/pushes/<uuid:push_id>/complete", environments.push_complete),
    path(f"{_ENVIRONMENT}/versions", versions.version_list),
    path(_VERSION, versions.version_detail),
    path(f"{_VERSION}/yank", versions.version_yank),
    path(f"{_VERSION}/rebuild", versions.version_rebuild),
    path(f"{_VERSION}/check", versions.version_check),
    path(f"{_VERSION}/files", versions.version_files),
    path(f"{_VERSION}/lock", versions.version_lock),
    path(f"{_VERSION}/download/<str:kind>", versions.version_download),
    path("former-names/<str:owner>/<str:name>", environments.former_name),
    path("runs/<id:run_id>/build-report", builds.build_report),
    path("runs/<id:run_id>/packed", builds.source_packed),
    path("wheels", builds.wheel_put),
    path("wheels/lookup", builds.wheel_lookup),
]
index_urls: list[URLPattern] = [
    path("index/-/simple/<str:project>/", index.stored_project),
    path("index/-/files/<str:sha256>/<str:filename>", index.stored_file),
    path("index/<str:owner>/simple", index.slash),
    path("index/<str:owner>/simple/", index.project_list),
    path("index/<str:owner>/simple/<str:project>", index.slash),
    path("index/<str:owner>/simple/<str:project>/", index.project_detail),
    path("index/<str:owner>/files/<str:sha256>/<str:filename>", index.file),
]
page_urls: list[URLPattern | URLResolver] = [
    path("environments", pages.environment_list, name="environments"),
    path("environments/new", upload_pages.environment_new, name="environment-new"),
    path("environments/sample", pages.sample_add, name="sample-add"),
    path(_ENVIRONMENT, pages.environment_detail, name="environment"),
    path(f"{_ENVIRONMENT}/settings", pages.environment_settings, name="environment-settings"),
    path(f"{_ENVIRONMENT}/archive", pages.environment_archive, name="environment-archive"),
    path(f"{_ENVIRONMENT}/move", pages.environment_move, name="environment-move"),
    path(f"{_ENVIRONMENT}/fork", fork_pages.environment_fork, name="environment-fork"),
    path(f"{_ENVIRONMENT}/forks", fork_pages.environment_forks, name="environment-forks"),
    path(f"{_ENVIRONMENT}/star", pages.environment_star, name="environment-star"),
    path(f"{_ENVIRONMENT}/versions", pages.version_list, name="versions"),
    path(_VERSION, pages.version_detail, name="version"),
    path(f"{_VERSION}/files", pages.version_files, name="version-files"),
    path(f"{_VERSION}/rebuild", pages.version_rebuild, name="version-rebuild"),
    path(f"{_VERSION}/check", pages.version_check, name="version-check"),
    path(f"{_VERSION}/yank", pages.version_yank, name="version-yank"),
    *index_urls,
]
