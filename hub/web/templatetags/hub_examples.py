"""The model that a page's example command names: one that the reader may call here. A tag, since every app's pages
give examples, also of apps that may not import the catalogue."""

from __future__ import annotations

from django import template
from django.template.context import Context

from hub.catalog.queries import suggested_model

register = template.Library()
NONE = "OWNER/MODEL"


@register.simple_tag(takes_context=True)
def example_model(context: Context, *, trainable: bool = False) -> str:
    """hub/tiny where it is, else the newest visible model (that can be trained), else a placeholder."""
    return suggested_model(context["request"].user, trainable=trainable) or NONE
