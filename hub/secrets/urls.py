"""Routes of secrets."""

from django.urls import path

from hub.secrets import api, pages

api_urls = [
    path("secrets/<slug:owner>", api.secret_list),
    path("secrets/<slug:owner>/<str:name>", api.secret_detail),
]
page_urls = [
    path("settings/secrets", pages.secret_list, name="secrets"),
    path("settings/secrets/<slug:owner>/<str:name>/delete", pages.secret_delete, name="secret-delete"),
]
