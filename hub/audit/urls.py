"""Routes of the audit app."""

from django.urls import URLPattern, URLResolver, path

from hub.audit import api, pages

api_urls: list[URLPattern | URLResolver] = [
    path("audit", api.audit_entries),
    path("audit/export", api.audit_export),
]
page_urls: list[URLPattern | URLResolver] = [
    path("settings/audit", pages.audit_list, name="audit"),
    path("settings/audit/export", pages.audit_export, name="audit-export"),
]
