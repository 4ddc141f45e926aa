"""Raw HTML inside of untrusted Markdown: harmless tags stay, pictures become links, everything else is shown as text.

`hub.web.markdown` cleans the whole afterwards; here is decided what of it means something. Attributes other than the
few named here go, and formatting that a block leaves open ends with it: parsers of HTML would open it anew in every
block that follows, and so make gigabytes of a few lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape, unescape

FORMATTING = {"a", "b", "code", "del", "em", "i", "ins", "kbd", "mark", "q", "s", "samp", "small", "strike", "strong"}
FORMATTING |= {"sub", "sup", "tt", "u", "var"}
BLOCKS = {"blockquote", "caption", "center", "dd", "details", "div", "dl", "dt", "li", "ol", "p", "pre", "summary"}
BLOCKS |= {"table", "tbody", "td", "tfoot", "th", "thead", "tr", "ul"}
VOID = {"br", "hr"}
UNSEEN = {"font", "picture", "source", "span"}  # they say nothing without their attributes
MOST_TAGS = 5000  # of one text
LONGEST_TAG = 4096
_TAG = re.compile(r"""<(/?)([a-zA-Z][a-zA-Z0-9]*)((?=[\s/>])(?:[^<>"']|"[^"]*"|'[^']*')*)>""")
_ATTRIBUTE = re.compile(r"""([a-zA-Z-]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'=<>`]+)))?""")
_ALIGN = re.compile(r"left|center|right|justify")
_NUMBER = re.compile(r"[1-9][0-9]?")
_ANY = re.compile(r".*", re.DOTALL)
_HEADINGS = [f"h{level}" for level in range(1, 7)]
_ALIGNED = {name: {"align": _ALIGN} for name in ("div", "p", "td", "th", "tr", *_HEADINGS)}
ATTRIBUTES: dict[str, dict[str, re.Pattern[str]]] = {
    **_ALIGNED,
    "a": {"href": _ANY, "title": _ANY},
    "td": {"align": _ALIGN, "colspan": _NUMBER, "rowspan": _NUMBER},
    "th": {"align": _ALIGN, "colspan": _NUMBER, "rowspan": _NUMBER},
    "details": {"open": _ANY},
}


class TooManyTags(Exception):
    """More than any README has."""


def picture(text: str, address: str, *, inside_link: bool) -> str:
    """A picture's text, linked to it; the text alone inside of another link."""
    words = escape(text or "picture")
    return words if inside_link or not address else f'<a href="{escape(address)}">{words}</a>'


@dataclass
class RawHtml:
    """The raw HTML of one text; pieces come in their order."""

    check_time: Callable[[], None]
    left: int = MOST_TAGS
    open: list[str] = field(default_factory=list)  # formatting of the current block

    def read(self, raw: str, *, inside_link: bool) -> str:
        """A piece as it may stay. Raises TooManyTags, and what `check_time` raises."""
        made, at = [], 0
        while (start := raw.find("<", at)) >= 0:
            self.check_time()
            made.append(raw[at:start].replace(">", "&gt;"))
            if raw.startswith("<!--", start):
                end = raw.find("-->", start + 4)
                at = len(raw) if end < 0 else end + 3
            elif found := _TAG.match(raw, start, min(len(raw), start + LONGEST_TAG)):
                made.append(self._tag(found, inside_link=inside_link))
                at = found.end()
            else:
                made.append("&lt;")
                at = start + 1
        return "".join([*made, raw[at:].replace(">", "&gt;")])

    def close(self) -> str:
        """The ends of what the block leaves open."""
        ends = "".join(f"</{name}>" for name in reversed(self.open))
        self.open.clear()
        return ends

    def _tag(self, found: re.Match[str], *, inside_link: bool) -> str:
        self.left -= 1
        if self.left < 0:
            raise TooManyTags
        is_end, name = bool(found.group(1)), found.group(2).lower()
        if name in UNSEEN:
            return ""
        if name == "img":
            given = _attributes(found.group(3))
            text = given.get("alt") or given.get("title", "")
            return picture(text, given.get("src", ""), inside_link=inside_link or "a" in self.open)
        if re.fullmatch("h[1-6]", name):
            return self._shown(f"h{min(6, int(name[1]) + 1)}", found.group(3), is_end=is_end)
        if name in FORMATTING:
            return self._formatting(name, found.group(3), is_end=is_end, inside_link=inside_link)
        if name in BLOCKS or name in VOID:
            return self._shown(name, found.group(3), is_end=is_end)
        return escape(found.group(0), quote=False)

    def _formatting(self, name: str, attributes: str, *, is_end: bool, inside_link: bool) -> str:
        if name == "a" and inside_link:
            return ""
        if not is_end:
            self.open.append(name)
        elif name in self.open:
            self.open.remove(name)
        else:
            return ""
        return self._shown(name, attributes, is_end=is_end)

    def _shown(self, name: str, attributes: str, *, is_end: bool) -> str:
        if is_end:
            return f"</{name}>"
        known = ATTRIBUTES.get(name, {})
        given = {key: value for key, value in _attributes(attributes).items() if key in known}
        kept = [f' {key}="{escape(value)}"' for key, value in given.items() if known[key].fullmatch(value)]
        return f"<{name}{''.join(kept)}>"


def _attributes(text: str) -> dict[str, str]:
    """The first of each name, as browsers take them."""
    found: dict[str, str] = {}
    for match in _ATTRIBUTE.finditer(text):
        values = (value for value in match.groups()[1:] if value is not None)
        found.setdefault(match.group(1).lower(), unescape(next(values, "")))
    return found
