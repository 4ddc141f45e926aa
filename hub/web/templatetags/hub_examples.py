"""The model that a page's example command names: one that the reader may call here. A tag, since every app's pages
give examples, also of apps that may not import the catalogue."""

from __future__ import annotations

from django import template
from django.db.models import Case, When
from django.template.context import Context

from hub.accounts.queries import SYSTEM_OWNER
from hub.catalog.queries import visible_models
from hub.web.tiny_model import NAME

register = template.Library()
NONE = "OWNER/MODEL"


@register.simple_tag(takes_context=True)
def example_model(context: Context, *, trainable: bool = False) -> str:
    """hub/tiny where it is, else the newest visible model (that can be trained), else a placeholder."""
    rows = visible_models(context["request"].user).prefetch_related(None)
    if trainable:
        rows = rows.filter(trainable=True, base=None)
    tiny = When(owner__slug=SYSTEM_OWNER, name=NAME, then=0)
    found = rows.order_by(Case(tiny, default=1), "-pk").first()
    return f"{found.owner.slug}/{found.name}" if found else NONE
