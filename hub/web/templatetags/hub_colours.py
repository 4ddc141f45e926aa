"""A colour of each model, the same wherever it is drawn."""

from __future__ import annotations

from zlib import crc32

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()
TONES = (0, 1, 3, 4, 5, 7)  # of app.css, without the green and the red, which mean states


@register.filter
def model_tone(name: str) -> str:
    """The class of a model's colour. A colour alone never tells two models apart: the name stands beside it."""
    return f"tone{TONES[crc32(name.encode()) % len(TONES)]}"


@register.filter
def model_mark(name: str) -> SafeString:
    """A small square in a model's colour, to put before its name."""
    return format_html('<i class="model {}" aria-hidden="true"></i>', model_tone(name))
