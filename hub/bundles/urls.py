"""Routes of the bundles app."""

from django.urls import URLPattern, URLResolver, path

from hub.bundles import api

api_urls: list[URLPattern | URLResolver] = [
    path("environments/<str:owner>/<str:name>/versions/<str:version>/bundle", api.bundle_export),
    path("bundles", api.bundle_import),
    path("bundles/key", api.bundle_key),
]
page_urls: list[URLPattern | URLResolver] = []
