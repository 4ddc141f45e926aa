"""Untrusted Markdown (READMEs, and what models wrote) to sanitised HTML that the CSP has no objection to.

Of raw HTML what is harmless (`hub.web.raw_html`), no scripts. A picture from elsewhere becomes a link to it: showing it
would tell its server who reads here, and air-gapped hubs could not. Column alignment is an attribute, since the CSP
forbids styles. A text that is too long, or takes too long (nested brackets cost the square of their number), is shown
as it is.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache

import nh3
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict

from hub.web import source_code
from hub.web.raw_html import ATTRIBUTES, RawHtml, TooManyTags, picture

LONGEST = 256 * 1024
LONGEST_SHOWN = 512 * 1024
CPU_SECONDS = 2.0
KEPT = 32  # rendered texts a process
_ATTRIBUTES = {name: set(values) for name, values in ATTRIBUTES.items()} | {"code": {"class"}}
_TAGS = nh3.ALLOWED_TAGS - {"style", "math", "svg", "map", "area", "img"}
_ALIGNMENT = "text-align:"


def _picture(renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
    """The alternative text, linked to the picture; the text alone inside of another link."""
    token = tokens[index]
    text = renderer.renderInlineAsText(token.children or [], options, env)
    inside_link = bool(env.get("links")) or "a" in env["raw"].open
    return picture(text, str(token.attrGet("src")), inside_link=inside_link)


def _link(renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
    """Counts the open links, for `_picture`: looking back at every picture would cost the square of their number."""
    env["links"] = env.get("links", 0) + tokens[index].nesting
    return renderer.renderToken(tokens, index, options, env)


def _raw(renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
    """A tag within a paragraph."""
    html: str = env["raw"].read(tokens[index].content, inside_link=bool(env.get("links")))
    return html


def _raw_block(renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
    """A block of HTML."""
    html: str = env["raw"].read(tokens[index].content, inside_link=False) + env["raw"].close()
    return html


class _Renderer(RendererHTML):
    """Ends with each block what its raw HTML leaves open."""

    def renderInline(self, tokens: Sequence[Token], options: OptionsDict, env: EnvType) -> str:
        """A paragraph, heading or cell."""
        html = super().renderInline(tokens, options, env)
        return html + str(env["raw"].close())


def _cell(renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
    """A table cell with its alignment as an attribute."""
    token = tokens[index]
    style = token.attrs.pop("style", "")
    if isinstance(style, str) and style.startswith(_ALIGNMENT):
        token.attrSet("align", style.removeprefix(_ALIGNMENT))
    return renderer.renderToken(tokens, index, options, env)


def _heading(renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
    """One level down: the page itself has the only heading of the first level."""
    tokens[index].tag = f"h{min(6, int(tokens[index].tag[1:]) + 1)}"
    return renderer.renderToken(tokens, index, options, env)


def _fence(renderer: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
    """Code of a language that is known, in colours."""
    token = tokens[index]
    language = next(iter(token.info.lower().split()), "")
    if not source_code.is_known(language):
        return renderer.fence(tokens, index, options, env)
    return f'<pre><code class="language-{language}">{source_code.colour(token.content, language)}</code></pre>\n'


class _TooSlow(Exception):
    """The time is over."""


def _check_time(env: EnvType) -> None:
    """Every parser rule begins with this; the thread's own time counts, so that a busy host changes nothing."""
    if time.thread_time() > env["until"]:
        raise _TooSlow


def _inline_clock(state: StateInline, silent: bool) -> bool:
    _check_time(state.env)
    return False


def _block_clock(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    _check_time(state.env)
    return False


def _made(*, html: bool, breaks: bool) -> MarkdownIt:
    made = MarkdownIt("gfm-like", {"html": html, "linkify": True, "breaks": breaks}, renderer_cls=_Renderer)
    if made.linkify:
        made.linkify.set({"fuzzy_link": False})  # `calc.py` is a file; with it, a host in Paraguay
    for name, rule in _RULES.items():
        made.add_render_rule(name, rule)
    made.inline.ruler.before("text", "clock", _inline_clock)
    made.block.ruler.before("table", "clock", _block_clock)
    return made


_RULES = {
    "html_inline": _raw,
    "html_block": _raw_block,
    "image": _picture,
    "fence": _fence,
    "link_open": _link,
    "link_close": _link,
    "heading_open": _heading,
    "heading_close": _heading,
    "th_open": _cell,
    "td_open": _cell,
}
_readmes, _messages = _made(html=True, breaks=False), _made(html=False, breaks=True)


@lru_cache(maxsize=KEPT)
def render(text: str) -> SafeString:
    """HTML that is safe to show: links are nofollow, nothing is active, nothing is fetched."""
    return _render(_readmes, text)


@lru_cache(maxsize=KEPT)
def render_message(text: str) -> SafeString:
    """The same of what a model wrote or was asked: tags (`<answer>`) and ends of lines mean something there."""
    return _render(_messages, text)


def _render(markdown: MarkdownIt, text: str) -> SafeString:
    if len(text) > LONGEST:
        return _plain(text)
    try:
        env: EnvType = {"until": time.thread_time() + CPU_SECONDS}
        env["raw"] = RawHtml(lambda: _check_time(env))
        html = markdown.render(text, env)
    except (_TooSlow, TooManyTags):
        return _plain(text)
    clean = nh3.clean(
        html,
        tags=_TAGS,
        attributes=_ATTRIBUTES,
        allowed_classes={"span": set(source_code.CLASSES)},
        url_schemes={"https", "http", "mailto"},
        link_rel="nofollow noopener noreferrer",
    )
    return mark_safe(clean)  # noqa: S308  nh3 cleaned it


def _plain(text: str) -> SafeString:
    return mark_safe(f"<pre>{escape(text[:LONGEST_SHOWN])}</pre>")  # noqa: S308  escaped
