"""Routes of the evals app."""

from django.urls import URLPattern, URLResolver, path

from hub.evals import api, pages
from hub.evals.comparing import api as comparing_api
from hub.evals.comparing import example_sides, replay_sides, version_diff_views
from hub.evals.comparing import pages as comparing_pages
from hub.evals.reading import annotation_api, annotation_pages, reader
from hub.evals.reports import pages as report_pages
from hub.evals.standings import api as standings_api
from hub.evals.standings import watch_api, watch_pages
from hub.evals.starting import pages as starting_pages

_ROLLOUT = "evaluations/<id:evaluation_id>/rollouts/<int:example>/<int:rollout>"
api_urls: list[URLPattern | URLResolver] = [
    path("evaluations", api.evaluations),
    path("evaluations/push", api.push),
    path("evaluations/compare", comparing_api.comparison_matrix),
    path("evaluations/<id:evaluation_id>", api.evaluation),
    path("evaluations/<id:evaluation_id>/compare/<id:other_id>", comparing_api.comparison),
    path("evaluations/<id:evaluation_id>/finalize", api.finalize),
    path("evaluations/<id:evaluation_id>/resume", api.resume),
    path("evaluations/<id:evaluation_id>/cancel", api.cancel),
    path("evaluations/<id:evaluation_id>/segments", api.segments),
    path("evaluations/<id:evaluation_id>/shards", api.shards),
    path("evaluations/<id:evaluation_id>/replayed", api.replayed),
    path("evaluations/<id:evaluation_id>/rollouts", api.rollouts),
    path("evaluations/<id:evaluation_id>/clusters", api.clusters),
    path(_ROLLOUT, api.rollout),
    path(f"{_ROLLOUT}/labels/<str:label>", annotation_api.label),
    path(f"{_ROLLOUT}/notes", annotation_api.notes),
    path(f"{_ROLLOUT}/notes/<id:note_id>", annotation_api.note),
    path("evaluations/<id:evaluation_id>/labels", annotation_api.labels),
    path("evaluations/<id:evaluation_id>/views", annotation_api.views),
    path("evaluations/<id:evaluation_id>/views/<id:view_id>", annotation_api.view),
    path("evaluations/<id:evaluation_id>/export", api.export),
    path("evaluations/<id:evaluation_id>/fingerprint", report_pages.fingerprint_of_evaluation),
    path("environments/<str:owner>/<str:name>/diff", version_diff_views.environment_diff),
    path("environments/<str:owner>/<str:name>/leaderboard", standings_api.environment_leaderboard),
    path("environments/<str:owner>/<str:name>/watches", watch_api.watches),
    path("environments/<str:owner>/<str:name>/watches/<id:watch_id>", watch_api.watch),
]
page_urls: list[URLPattern | URLResolver] = [
    path("evaluations", pages.evaluation_list, name="evaluations"),
    path("evaluations/compare", comparing_pages.evaluation_compare, name="evaluation-compare"),
    path("evaluations/compare/example", example_sides.compare_example, name="evaluation-compare-example"),
    path("evaluations/<id:evaluation_id>", pages.evaluation_detail, name="evaluation"),
    path("evaluations/compare/report", report_pages.comparison_report_page, name="comparison-report"),
    path("evaluations/<id:evaluation_id>/report", report_pages.evaluation_report_page, name="evaluation-report"),
    path("evaluations/<id:evaluation_id>/cancel", pages.evaluation_cancel, name="evaluation-cancel"),
    path("evaluations/<id:evaluation_id>/resume", pages.evaluation_resume, name="evaluation-resume"),
    path("evaluations/<id:evaluation_id>/share", pages.evaluation_share, name="evaluation-share"),
    path(_ROLLOUT, reader.rollout_detail, name="rollout"),
    path(f"{_ROLLOUT}/pictures/<int:number>/<int:index>", reader.rollout_picture, name="rollout-picture"),
    path(f"{_ROLLOUT}/original", replay_sides.replay_beside_original, name="rollout-original"),
    path(f"{_ROLLOUT}/label", annotation_pages.rollout_label, name="rollout-label"),
    path(f"{_ROLLOUT}/note", annotation_pages.rollout_note, name="rollout-note"),
    path(f"{_ROLLOUT}/note/<id:note_id>", annotation_pages.rollout_note_change, name="rollout-note-change"),
    path("evaluations/<id:evaluation_id>/views", annotation_pages.view_save, name="view-save"),
    path("evaluations/<id:evaluation_id>/views/<id:view_id>/delete", annotation_pages.view_delete, name="view-delete"),
    path(
        "environments/<str:owner>/<str:name>/evaluations", pages.environment_evaluations, name="environment-evaluations"
    ),
    path("environments/<str:owner>/<str:name>/diff", version_diff_views.version_diff_page, name="version-diff"),
    path("environments/<str:owner>/<str:name>/evaluate", starting_pages.evaluate, name="evaluate"),
    path("environments/<str:owner>/<str:name>/watches", watch_pages.watch_set, name="watch-set"),
    path("environments/<str:owner>/<str:name>/watches/<id:watch_id>", watch_pages.watch_delete, name="watch-delete"),
]
