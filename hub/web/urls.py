"""Routes of the pages that belong to no single app."""

from django.urls import URLPattern, URLResolver, path

from hub.web import pages

api_urls: list[URLPattern | URLResolver] = []
page_urls: list[URLPattern | URLResolver] = [
    path("", pages.home, name="home"),
    path("data", pages.data_list, name="data"),
]
