"""Routes of the inference app."""

from django.urls import URLPattern, URLResolver, path

from hub.inference import api, deployment_pages, pages

api_urls: list[URLPattern | URLResolver] = [
    path("runs/<id:run_id>/address", api.serve_address),
    path("deployments", api.deployments),
    path("deployments/<id:deployment_id>", api.deployment),
]
page_urls: list[URLPattern | URLResolver] = [
    path("deployments", deployment_pages.deployment_list, name="deployments"),
    path("deployments/<id:deployment_id>/end", deployment_pages.deployment_end, name="deployment-end"),
    path("models/<slug:owner>/<str:name>/deploy", deployment_pages.deployment_new, name="deploy"),
    path("inference/v1/models", pages.models),
    path("inference/v1/models/<slug:owner>/<str:name>", pages.model),
    path("inference/v1/chat/completions", pages.chat_completions),
    path("inference/v1/completions", pages.completions),
    path("inference/v1/<path:rest>", pages.not_offered),
]
