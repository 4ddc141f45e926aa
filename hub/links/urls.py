"""Routes of share links."""

from django.urls import URLPattern, URLResolver, path

from hub.links import api, pages, shared_pages

_EVALUATION = "evaluations/<id:evaluation_id>"
_ROLLOUT = "shared/<str:secret>/<int:side>/rollouts/<int:example>/<int:rollout>"
api_urls: list[URLPattern | URLResolver] = [
    path("share-links", api.share_links),
    path("share-links/<id:link_id>", api.share_link),
]
page_urls: list[URLPattern | URLResolver] = [
    path("settings/links", pages.link_list, name="links"),
    path("settings/links/<id:link_id>/revoke", pages.link_revoke, name="link-revoke"),
    path("evaluations/compare/links", pages.comparison_links, name="comparison-links"),
    path(f"{_EVALUATION}/links", pages.evaluation_links, name="evaluation-links"),
    path(f"{_EVALUATION}/rollouts/<int:example>/<int:rollout>/links", pages.rollout_links, name="rollout-links"),
    path("training/<id:training_id>/links", pages.training_links, name="training-links"),
    path("shared/<str:secret>", shared_pages.shared, name="shared"),
    path("shared/<str:secret>/report", shared_pages.shared_report, name="shared-report"),
    path("shared/<str:secret>/examples/<int:example>", shared_pages.shared_example, name="shared-example"),
    path("shared/<str:secret>/rollouts", shared_pages.shared_training_rollouts, name="shared-training-rollouts"),
    path(
        "shared/<str:secret>/rollouts/<int:step>/<int:index>",
        shared_pages.shared_training_rollout,
        name="shared-training-rollout",
    ),
    path(
        "shared/<str:secret>/rollouts/<int:step>/<int:index>/pictures/<int:number>/<int:picture>",
        shared_pages.shared_training_picture,
        name="shared-training-picture",
    ),
    path(_ROLLOUT, shared_pages.shared_rollout, name="shared-rollout"),
    path(f"{_ROLLOUT}/pictures/<int:number>/<int:index>", shared_pages.shared_picture, name="shared-picture"),
]
