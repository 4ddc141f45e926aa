"""Routes of notifications."""

from django.urls import URLPattern, URLResolver, path

from hub.notices import api, pages

api_urls: list[URLPattern | URLResolver] = [
    path("notifications", api.notices),
    path("notifications/read", api.read_all),
    path("notifications/choices", api.choices),
    path("notifications/<id:notice_id>/read", api.read_one),
]
page_urls: list[URLPattern | URLResolver] = [
    path("notifications", pages.notice_list, name="notifications"),
    path("notifications/read", pages.notice_read_all, name="notifications-read"),
    path("notifications/choices", pages.notice_choose, name="notifications-choose"),
    path("notifications/<id:notice_id>/open", pages.notice_open, name="notification-open"),
]
