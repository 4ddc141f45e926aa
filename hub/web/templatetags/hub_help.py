"""Explanations of statistical words, from the documentation's own sections."""

from __future__ import annotations

from django import template
from django.utils.text import slugify

from hub.web.documentation.documents import explanation

register = template.Library()


@register.filter
def explained(at: str) -> str:
    """The first paragraph of a section of the documentation, SLUG#ANCHOR."""
    return explanation(at)


@register.filter
def chart_section(title: str) -> str:
    """The section that explains a chart of this title; "" if there is none."""
    at = f"numbers#{slugify(title)}"
    return at if explanation(at) else ""
