"""Routes of the pages that belong to no single app."""

from django.urls import URLPattern, URLResolver, path

from hub.web import administration, owner_pages, pages, previews, quota_pages
from hub.web.documentation import pages as documentation
from hub.web.sdk_wheel import FILENAME

api_urls: list[URLPattern | URLResolver] = []
page_urls: list[URLPattern | URLResolver] = [
    path("", pages.home, name="home"),
    path("search", pages.search, name="search"),
    path("data", pages.data_list, name="data"),
    path("administration/queue", administration.queue, name="administration-queue"),
    path("administration/sandboxes", administration.sandboxes, name="administration-sandboxes"),
    path("administration/storage", administration.storage, name="administration-storage"),
    path("administration/quotas", quota_pages.quotas, name="administration-quotas"),
    path("administration/data", administration.data_sets, name="administration-data"),
    path("administration/data/forget", administration.data_forget, name="administration-data-forget"),
    path("cli", pages.cli, name="cli"),
    path("docs", documentation.index, name="documents"),
    path("docs/<slug:slug>", documentation.read, name="document"),
    path(f"cli/{FILENAME}", pages.cli_wheel, name="cli-wheel"),
    path("environments/<str:owner>/<str:name>/preview.png", previews.environment_preview, name="environment-preview"),
    path("evaluations/<id:evaluation_id>/preview.png", previews.evaluation_preview, name="evaluation-preview"),
    path("training/<id:training_id>/preview.png", previews.training_preview, name="training-preview"),
    path("owners/<slug:owner>", owner_pages.owner_long, name="owner-long"),
    path("<slug:owner>", owner_pages.owner_short, name="owner"),  # the last of all: the hub's own addresses win
]
