"""Root URLs: each app brings its own urls.py (`api_urls` under /api/v1, `page_urls` under /)."""

from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path

from hub.accounts import urls as accounts
from hub.accounts.pages import admin_login
from hub.api import urls as api
from hub.audit import urls as audit
from hub.bundles import urls as bundles
from hub.catalog import urls as catalog
from hub.compat import urls as compat
from hub.data import urls as data
from hub.evals import urls as evals
from hub.inference import urls as inference
from hub.links import urls as links
from hub.notices import urls as notices
from hub.registry import urls as registry
from hub.runs import urls as runs
from hub.sandboxes import urls as sandboxes
from hub.secrets import urls as secrets
from hub.storage import urls as storage
from hub.training import urls as training
from hub.web import urls as web
from hub.webhooks import urls as webhooks

handler400 = "hub.api.errors.handle_400"
handler403 = "hub.api.errors.handle_403"
handler404 = "hub.api.errors.handle_404"
handler500 = "hub.api.errors.handle_500"

APPS = (
    *(api, accounts, storage, runs, secrets, registry, catalog, data),
    *(evals, sandboxes, training, inference, bundles, links, audit, notices, webhooks, compat, web),
)
_api_urls: list[URLPattern | URLResolver] = [url for app in APPS for url in app.api_urls]
_page_urls: list[URLPattern | URLResolver] = [url for app in APPS for url in app.page_urls]
urlpatterns: list[URLPattern | URLResolver] = [
    path("admin/login/", admin_login),  # before Django's own, which would count no tries
    path("admin/", admin.site.urls),
    path("api/v1/", include(_api_urls)),
    *_page_urls,
]
