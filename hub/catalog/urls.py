"""Routes of the catalog."""

from django.urls import URLPattern, URLResolver, path

from hub.catalog import api, pages

api_urls: list[URLPattern | URLResolver] = [
    path("models", api.models_list),
    path("models/<slug:owner>/<str:name>", api.model_detail),
    path("models/<slug:owner>/<str:name>/test", api.model_test),
    path("models/<slug:owner>/<str:name>/files", api.model_files),
]
page_urls: list[URLPattern | URLResolver] = [
    path("models", pages.model_list, name="models"),
    path("models/<slug:owner>/<str:name>/test", pages.model_test, name="model-test"),
    path("models/<slug:owner>/<str:name>/delete", pages.model_delete, name="model-delete"),
]
