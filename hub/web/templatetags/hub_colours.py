"""A colour of each model, the same wherever it is drawn."""

from __future__ import annotations

from zlib import crc32

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()
TONES = 8  # `.tone0` to `.tone7` in app.css


@register.filter
def model_tone(name: str) -> str:
    """The class of a model's colour. A colour alone never tells two models apart: the name stands beside it."""
    return f"tone{crc32(name.encode()) % TONES}"


@register.filter
def model_dot(name: str) -> SafeString:
    """A dot in a model's colour, to put before its name."""
    return format_html('<i class="dot {}" aria-hidden="true"></i>', model_tone(name))
