"""How the numbers of a training run are written on pages."""

from __future__ import annotations

from django import template

from hub.training.charts.scales import short as short_number

register = template.Library()


@register.filter
def short(value: float | str | None, unit: str = "") -> str:
    """Three digits: "0.0123", "12.3 k"; a dash when there is none (templates give "" for a missing key)."""
    return short_number(None if isinstance(value, str) else value, unit)


@register.filter
def words(name: str) -> str:
    """An identifier as words: "zero_signal" -> "zero signal"."""
    return name.replace("_", " ")


@register.filter
def toml(text: str) -> str:
    """Inside of a TOML string: no character may end it."""
    return "".join(letter for letter in text if letter.isprintable() and letter not in '"\\')
