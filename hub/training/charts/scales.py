"""Axes and short numbers for the training charts. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from hub.core.numbers import minus

SMALLEST = 1e-300  # smaller values count as 0; a quarter of this one still has full precision
FLAT = 1e-4  # a range below this share of its values is rounding noise
DIGITS = range(3, 7)  # digits of a tick
PREFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
MOST_DECADES = 4  # tick distances of a logarithmic axis; a distance may span several decades
MOST_PARTS = 10  # parts of a filled axis before its ends are rounded


@dataclass(frozen=True)
class Scale:
    """A range of values with round ends; `ticks` are evenly spaced, the highest first.

    logarithmic: both ends are above 0, and only values above 0 have a position.
    """

    low: float
    high: float
    ticks: tuple[float, ...]
    logarithmic: bool = False

    def y(self, value: float) -> float:
        """Return the y coordinate of a value, from 100 (low) to 0 (high)."""
        if self.logarithmic:
            return round(100 - 100 * math.log(value / self.low) / math.log(self.high / self.low), 2)
        return round(100 - 100 * (value - self.low) / (self.high - self.low), 2)


def scale_of(values: Iterable[float], *, from_zero: bool = False, unit_range: bool = False) -> Scale:
    """Return a scale with round ends around the values; `unit_range`: use 0 to 1 if all lie in it."""
    known = [value if abs(value) > SMALLEST else 0.0 for value in values if math.isfinite(value)] or [0.0]
    low, high = min(known), max(known)
    if unit_range and low >= 0 and high <= 1:
        return Scale(0.0, 1.0, (1.0, 0.5, 0.0))
    if from_zero:
        low, high = min(0.0, low), max(0.0, high)
    if high - low <= FLAT * max(abs(low), abs(high)):
        around = abs(high) * 0.5 or 1.0
        low, high = (0.0, high + around) if from_zero and high >= 0 else (low - around, high + around)
    step = round_step((high - low) / 2)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    digits = 2 - math.floor(math.log10(step))  # rounds to the digits of the step itself: 3 * 0.1 is 0.3
    ticks = tuple(round(step * place, digits) for place in range(last, first - 1, -1))
    return Scale(ticks[-1], ticks[0], ticks)


def log_scale_of(values: Iterable[float]) -> Scale | None:
    """Return a scale with whole powers of ten around the values above 0; None without any."""
    known = [value for value in values if math.isfinite(value) and value > SMALLEST]
    if not known:
        return None
    first = math.floor(math.log10(min(known)) + 1e-9)
    last = max(first + 1, math.ceil(math.log10(max(known)) - 1e-9))
    apart = -(-(last - first) // MOST_DECADES)
    powers = range(first + apart * -(-(last - first) // apart), first - 1, -apart)
    return Scale(10.0**first, 10.0 ** powers[0], tuple(10.0**power for power in powers), logarithmic=True)


def round_step(wanted: float) -> float:
    """Return 1, 2 or 5 times a power of ten, at least `wanted`."""
    power: float = 10.0 ** math.floor(math.log10(wanted))
    return next(power * part for part in (1, 2, 5, 10) if power * part >= wanted * (1 - 1e-9))


def round_halves(low: float, high: float) -> tuple[float, float, float]:
    """Return the highest, middle and lowest tick, all round, of an axis for the range from low to high."""
    low, high = (value if abs(value) > SMALLEST else 0.0 for value in (low, high))
    if high - low <= FLAT * max(abs(low), abs(high)):
        around = abs(high) * 0.5 or 1.0
        low, high = low - around, high + around
    step = round_step((high - low) / MOST_PARTS)
    first, last = math.floor(low / step + 1e-6), math.ceil(high / step - 1e-6)
    if (last - first) % 2:
        first, last = (first - 1, last) if low < 0 and -low > high else (first, last + 1)
    digits = 2 - math.floor(math.log10(step))
    top, middle, bottom = (round(step * place, digits) for place in (last, (first + last) // 2, first))
    return top, middle, bottom


def tick_texts(scale: Scale, unit: str) -> tuple[str, ...]:
    """Format the ticks with as few digits as distinguish them, and with exponents if one of them needs one."""
    written = (tuple(short(tick, unit, digits) for tick in scale.ticks) for digits in DIGITS)
    texts: tuple[str, ...] = next((texts for texts in written if len(set(texts)) == len(texts)), ())
    if not unit and any("e" in text for text in texts):
        return tuple(_with_exponent(tick) for tick in scale.ticks)
    return texts


def _with_exponent(value: float) -> str:
    mantissa, _, power = f"{value:.{DIGITS[-1]}e}".partition("e")
    return minus(f"{float(mantissa):g}e{power}") if value else "0"


def short(value: float | None, unit: str = "", digits: int = 3) -> str:
    """Format a number for a chart; unit "share" is shown in percent, "B" in bytes, "k" in thousands."""
    if value is None or not math.isfinite(value):
        return "–"
    if unit == "share":
        text = f"{100 * value:.{digits}g}\u202f%"
    elif unit in {"B", "k"}:
        text = _with_prefix(value, unit.removesuffix("k"), digits)
    else:
        text = f"{value:.{digits}g}" + (f"\u202f{unit}" if unit else "")
    return minus(text)


def _with_prefix(value: float, unit: str, digits: int) -> str:
    size, prefix = next(((size, prefix) for size, prefix in PREFIXES if abs(value) >= size), (1.0, ""))
    shown = value / size
    text = f"{shown:.0f}" if digits == DIGITS[0] and abs(shown) >= 100 else f"{shown:.{digits}g}"
    return f"{text}\u202f{prefix}{unit}".rstrip("\u202f")
