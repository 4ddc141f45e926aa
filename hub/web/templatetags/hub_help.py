"""Explanations of statistical words, from the documentation's own sections."""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.text import slugify

from hub.web.documentation.documents import explanation

register = template.Library()


@register.filter
def explained(at: str) -> str:
    """The first paragraph of a section of the documentation, SLUG#ANCHOR."""
    return explanation(at)


@register.filter
def error_section(code: str) -> str:
    """The section of the page of error codes about this one; "" if there is none."""
    at = f"errors#{slugify(code)}"
    return at if explanation(at) else ""


@register.filter
def error_code(code: str) -> str:
    """An error's code, as a link to what it means where that is documented."""
    at = error_section(code)
    return format_html('<a href="/docs/{}">{}</a>', at, code) if at else code


@register.filter
def chart_section(title: str) -> str:
    """The section that explains a chart of this title; "" if there is none."""
    at = f"numbers#{slugify(title)}"
    return at if explanation(at) else ""
