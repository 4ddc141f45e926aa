"""Routes of the storage app."""

from django.urls import URLPattern, URLResolver, path, re_path

from hub.storage import api, pages

api_urls: list[URLPattern | URLResolver] = [
    path("blobs", api.blobs_prepare),
    re_path(r"^blobs/(?P<sha256>[0-9a-f]{64})$", api.blob_bytes),
]
page_urls: list[URLPattern | URLResolver] = [
    path("settings/storage", pages.storage_use, name="storage"),
]
