"""Draws the picture that chats show for the address of a page: 1200 x 630 pixels, PNG. Pure."""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256

from PIL import Image, ImageDraw, ImageFont

from hub.core.numbers import MINUS

WIDTH, HEIGHT = 1200, 630
MARGIN = 80
FORMAT = 2  # part of a picture's digest; increase it when the drawing changes
MOST_CHARACTERS = 300  # of a text that are read
MOST_POINTS = 200
INK, MUTED, PAPER, LINE, ACCENT = "#1c2330", "#5b6472", "#ffffff", "#d9dee7", "#3b5bdb"
_DRAWN = "\u00b1\u00b7\u2026"  # what the font has besides ASCII and is used here


@dataclass(frozen=True)
class Preview:
    """What a picture shows. figure: a number in large type, with `unit` below; curve: values from left to right."""

    kind: str
    title: str
    lines: tuple[str, ...] = ()
    figure: str = ""
    unit: str = ""
    curve: tuple[float, ...] = ()

    @property
    def digest(self) -> str:
        """A hash of everything that is drawn."""
        return sha256(f"{FORMAT}{self!r}".encode(errors="replace")).hexdigest()[:32]


def draw(preview: Preview) -> bytes:
    """Return the PNG. Texts are cut to fit, whatever they are; what the font lacks is a question mark."""
    image = Image.new("RGB", (WIDTH, HEIGHT), PAPER)
    canvas = ImageDraw.Draw(image)
    canvas.rectangle((0, 0, WIDTH, 14), fill=ACCENT)
    canvas.text((MARGIN, 70), _cut(preview.kind, 30, WIDTH - 2 * MARGIN), font=_font(30), fill=ACCENT)
    width = WIDTH - 2 * MARGIN
    y = 125
    for line in _wrapped(preview.title, 58, width, most=2):
        canvas.text((MARGIN, y), line, font=_font(58), fill=INK)
        y += 72
    y += 14
    for text in preview.lines[:2]:
        canvas.text((MARGIN, y), _cut(text, 30, width), font=_font(30), fill=MUTED)
        y += 44
    if preview.figure:
        canvas.text((MARGIN, 420), _cut(preview.figure, 84, width // 2), font=_font(84), fill=INK)
        canvas.text((MARGIN, 525), _cut(preview.unit, 28, width // 2), font=_font(28), fill=MUTED)
    _curve(canvas, preview.curve)
    canvas.text((WIDTH - MARGIN, 570), "Environments Hub", font=_font(26), fill=MUTED, anchor="ra")
    file = io.BytesIO()
    image.quantize(64).save(file, "PNG")
    return file.getvalue()


def _curve(canvas: ImageDraw.ImageDraw, values: Sequence[float]) -> None:
    step = -(-len(values) // MOST_POINTS) or 1
    shown = values[::step]
    if len(shown) < 2:
        return
    left, top, right, bottom = WIDTH // 2 + 20, 400, WIDTH - MARGIN, 545
    low, high = min(shown), max(shown)
    height = (high - low) or 1.0
    points = [
        (left + (right - left) * place / (len(shown) - 1), bottom - (bottom - top) * (value - low) / height)
        for place, value in enumerate(shown)
    ]
    canvas.line((left, bottom, right, bottom), fill=LINE, width=2)
    canvas.line(points, fill=ACCENT, width=5, joint="curve")


@cache
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)


def _drawable(text: str) -> str:
    text = text[:MOST_CHARACTERS].replace(MINUS, "-")  # the font has no minus sign
    plain = unicodedata.normalize("NFKD", text)[:MOST_CHARACTERS]
    return " ".join("".join(_glyph(letter) for letter in plain if not unicodedata.combining(letter)).split())


def _glyph(letter: str) -> str:
    if letter.isspace():
        return " "
    return letter if " " < letter <= "~" or letter in _DRAWN else "?"


def _cut(text: str, size: int, width: int) -> str:
    return next(iter(_wrapped(text, size, width, most=1)), "")


def _wrapped(text: str, size: int, width: int, *, most: int) -> list[str]:
    """Break a text into at most `most` lines, between words where that is possible; the last may end in "..."."""
    rest, font = _drawable(text), _font(size)
    lines: list[str] = []
    while rest and len(lines) < most:
        fits = len(rest)
        while font.getlength(rest[:fits]) > width:
            fits = fits * 9 // 10
        if fits == len(rest):
            lines.append(rest)
            break
        if len(lines) + 1 == most:
            lines.append(rest[: max(1, fits - 2)].rstrip() + "\u2026")
            break
        space = rest.rfind(" ", fits // 2, fits + 1)
        cut = space if space > 0 else fits
        lines.append(rest[:cut].rstrip())
        rest = rest[cut:].lstrip()
    return lines
