"""Routes of webhooks."""

from django.urls import URLPattern, URLResolver, path

from hub.webhooks import api, pages

_PAGE = "settings/webhooks/<id:webhook_id>"
api_urls: list[URLPattern | URLResolver] = [
    path("webhooks", api.webhooks),
    path("webhooks/<id:webhook_id>", api.webhook),
    path("webhooks/<id:webhook_id>/test", api.test),
    path("webhooks/<id:webhook_id>/deliveries", api.deliveries),
    path("webhooks/<id:webhook_id>/deliveries/<id:delivery_id>/again", api.again),
]
page_urls: list[URLPattern | URLResolver] = [
    path("settings/webhooks", pages.webhook_list, name="webhooks"),
    path(_PAGE, pages.webhook_detail, name="webhook"),
    path(f"{_PAGE}/enable", pages.webhook_enable, name="webhook-enable"),
    path(f"{_PAGE}/test", pages.webhook_test, name="webhook-test"),
    path(f"{_PAGE}/delete", pages.webhook_delete, name="webhook-delete"),
    path(f"{_PAGE}/deliveries/<id:delivery_id>/again", pages.delivery_again, name="delivery-again"),
]
