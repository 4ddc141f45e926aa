"""Documents as HTML with addresses for their headings, and their sections as text for the search.

The files are this project's own: they are trusted, unlike READMEs (hub.web.markdown).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from django.utils.safestring import SafeString, mark_safe
from django.utils.text import slugify
from markdown_it import MarkdownIt
from markdown_it.token import Token

from hub.web.documentation.contents import ENTRIES, ROOT, Entry, linked

DEEPEST_LISTED = 2  # headings below h2 are not in a document's own list
ELSEWHERE = ("/", "http://", "https://", "mailto:")
REPLACE_IT = " Replace `HUB` with this hub's address, as your browser shows it."
_HUB = re.compile(r"(?:https://)?(?<![\w`.-])HUB(?![\w`.\\-])")
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Section:
    """What stands below one heading. `anchor` is "" for what stands below the document's title."""

    slug: str
    anchor: str
    title: str
    level: int
    text: str
    lead: str  # its first paragraph


@dataclass(frozen=True)
class Document:
    """One page of the documentation."""

    entry: Entry
    title: str
    html: SafeString
    sections: tuple[Section, ...]

    @property
    def headings(self) -> list[Section]:
        """What its own list shows."""
        return [section for section in self.sections if section.anchor and section.level <= DEEPEST_LISTED]


@cache
def document(slug: str, hub: str = "") -> Document:
    """A document by its address. Raises KeyError for an address that there is not, OSError for a file that is gone.

    hub: the address to show instead of the word HUB, which stands for it in the files.
    """
    entry = ENTRIES[slug]
    text = (ROOT / entry.file).read_text(encoding="utf-8")
    return rendered(entry, addressed(text, hub) if hub else text)


def addressed(text: str, hub: str) -> str:
    """Put the hub's address where a file says HUB, and leave out the sentence that asks readers to do so."""
    return _HUB.sub(lambda _: hub, text.replace(REPLACE_IT, ""))


@cache
def explanation(at: str) -> str:
    """The first paragraph of the section `SLUG#ANCHOR`; "" if there is none."""
    slug, _, anchor = at.partition("#")
    sections = document(slug).sections if slug in ENTRIES else ()
    return next((section.lead for section in sections if section.anchor == anchor), "")


def rendered(entry: Entry, text: str) -> Document:
    """A document of this text."""
    markdown = MarkdownIt("gfm-like", {"html": False, "linkify": False})
    tokens = markdown.parse(text)
    anchors = list(_give_anchors(tokens))
    _resolve_links(entry, tokens)
    html = markdown.renderer.render(tokens, markdown.options, {})
    sections = tuple(_sections(entry, tokens, anchors))
    return Document(entry, sections[0].title, mark_safe(html), sections)  # noqa: S308  our own files, raw HTML escaped


def _give_anchors(tokens: Sequence[Token]) -> Iterator[str]:
    """Each heading but the title gets an id that is made of its words and is its own."""
    seen: dict[str, int] = {}
    for index, token in enumerate(tokens):
        if token.type != "heading_open":
            continue
        anchor = "" if token.tag == "h1" else slugify(_words(tokens[index + 1]))
        if anchor:
            seen[anchor] = seen.get(anchor, 0) + 1
            anchor = anchor if seen[anchor] == 1 else f"{anchor}-{seen[anchor]}"
            token.attrSet("id", anchor)
        yield anchor


def _resolve_links(entry: Entry, tokens: Sequence[Token]) -> None:
    """Links between files become links between documents; a file of the project that is no document loses its link."""
    for token in tokens:
        inside = False  # of a link that is dropped
        for child in token.children or []:
            if child.type == "link_open" and not str(child.attrGet("href")).startswith(ELSEWHERE):
                address = linked(entry, str(child.attrGet("href")))
                inside = address is None
                child.attrSet("href", address or "")
            if inside and child.type in {"link_open", "link_close"}:
                inside = child.type == "link_open"
                child.tag, child.attrs = "span", {}


def _sections(entry: Entry, tokens: Sequence[Token], anchors: Sequence[str]) -> Iterator[Section]:
    left = iter(anchors)
    anchor, title, level, words = "", entry.slug, 1, list[str]()
    begun = False
    for index, token in enumerate(tokens):
        if token.type == "heading_open":
            if begun:
                yield Section(entry.slug, anchor, title, level, " ".join(words), words[0] if words else "")
            anchor, title, level, words = next(left), _words(tokens[index + 1]), int(token.tag[1:]), []
            begun = True
        elif token.type in {"inline", "fence", "code_block"} and tokens[index - 1].type != "heading_open":
            words.append(_words(token))
    yield Section(entry.slug, anchor, title, level, " ".join(words), words[0] if words else "")


def _words(token: Token) -> str:
    """What a reader sees of it."""
    if token.children is None:
        return " ".join(token.content.split())
    told = (" " if child.type in {"softbreak", "hardbreak"} else child.content for child in token.children)
    return " ".join("".join(told).split())


@dataclass(frozen=True)
class Found:
    """A section that has all words of a search, and the place around the first of them."""

    section: Section
    document: str
    before: str
    match: str
    after: str


def search(words: str, *, most: int = 30, around: int = 90) -> list[Found]:
    """Sections that have every word, best first: in the heading, in the document's title, then by how often."""
    asked = [word.lower() for word in _WORD.findall(words)][:8]
    if not asked:
        return []
    ranked: list[tuple[float, int, Found]] = []
    for slug in ENTRIES:
        whole = document(slug)
        for section in whole.sections:
            heading, title, text = section.title.lower(), whole.title.lower(), section.text.lower()
            if not all(word in heading or word in title or word in text for word in asked):
                continue
            if not any(word in heading or word in text for word in asked):
                continue
            score = sum(20.0 * (word in heading) + 5.0 * (word in title) + min(text.count(word), 10) for word in asked)
            ranked.append((-score, len(ranked), _found(section, whole.title, asked, around)))
    return [found for *_, found in sorted(ranked, key=lambda one: one[:2])[:most]]


def _found(section: Section, title: str, asked: Sequence[str], around: int) -> Found:
    text = section.text
    places = [(text.lower().find(word), len(word)) for word in asked]
    at, length = min((place for place in places if place[0] >= 0), default=(0, 0))
    begin, end = max(0, at - around), at + length + around
    before = ("… " if begin else "") + text[begin:at]
    after = text[at + length : end] + (" …" if end < len(text) else "")
    return Found(section, title, before, text[at : at + length], after)
