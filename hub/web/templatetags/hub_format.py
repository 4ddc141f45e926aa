"""How numbers, sizes, times and states are written on pages."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime

from django import template
from django.core.serializers.json import DjangoJSONEncoder
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from envhub.protocol.base import JsonObject
from envhub.protocol.evals.evaluations import EvaluationSummary, MetricSummary
from envhub.protocol.evals.measured import in_words
from envhub.protocol.models.money import dollars
from envhub.protocol.registry.needs import distinct
from envhub.protocol.registry.packages import Check

from hub.accounts.addresses import address_of
from hub.core import numbers
from hub.core.sizes import in_bytes
from hub.evals.reward_shades import Shades
from hub.runs.placing.pace import duration_in_words as in_rough_words
from hub.web import tool_languages
from hub.web.markdown import render, render_message
from hub.web.source_code import colour, colour_lines, language_of

register = template.Library()

STATE_BADGES = {
    "queued": "info",
    "leased": "info",
    "running": "live",
    "building": "live",
    "succeeded": "good",
    "ready": "good",
    "ok": "good",
    "failed": "bad",
    "invalid": "bad",
    "truncated": "warn",
    "cancelled": "warn",
    "yanked": "warn",
    "pending": "info",
    "timed_out": "warn",
    "out_of_memory": "bad",
}
LEAST_SHOWN, MOST_SHOWN = 0.0005, 1e6  # of what three decimals say
SPANS = ((86400 * 365, "y"), (86400 * 30, "mo"), (86400, "d"), (3600, "h"), (60, "min"))


@register.filter
def with_token(url: str) -> str:
    """An address as pip takes it for what is private: the shell puts the token in."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://__token__:$HUB_TOKEN@{rest}"


@register.filter
def owner_url(slug: str) -> str:
    """The page of an owner."""
    return address_of(slug)


@register.filter
def diff_lines(text: str) -> SafeString:
    """A unified diff, each line with the class of what it says."""
    classes = {"+": "diff__new", "-": "diff__old", "@": "diff__at"}
    rows = ((classes.get(line[:1], "diff__same"), line) for line in text.split("\n"))
    return format_html_join("", '<span class="{}">{}</span>', rows)


@register.filter
def sentence(text: object) -> str:
    """Start a message with a capital, unless it starts with a name such as lab/mine, HUB_DATA or v1."""
    words = str(text)
    return words[:1].upper() + words[1:] if re.match(r"[a-z]+[,:;]?(\s|$)", words) else words


@register.filter
def coded(text: str) -> SafeString:
    """A message or hint; what it has between two backticks is code."""
    parts = re.split("`([^`]+)`", text)
    parts[1::2] = (format_html("<code>{}</code>", part) for part in parts[1::2])
    return format_html_join("", "{}", ((part,) for part in parts))


@register.filter
def ago(moment: datetime | None) -> str:
    """How long ago: "3 min ago"."""
    if moment is None:
        return "never"
    seconds = (timezone.now() - moment).total_seconds()
    for span, unit in SPANS:
        if seconds >= span:
            return f"{int(seconds // span)} {unit} ago"
    return "just now"


@register.filter
def when(moment: datetime | None) -> SafeString | str:
    """How long ago, with the moment itself when pointed at."""
    if moment is None:
        return "never"
    return _time(moment, ago(moment))


@register.filter
def until(moment: datetime | None) -> SafeString | str:
    """In how long: "in 12 min", with the moment itself when pointed at."""
    if moment is None:
        return "never"
    left = (moment - timezone.now()).total_seconds()
    spans = (f"in {int(left // span)} {unit}" for span, unit in SPANS if left >= span)
    return _time(moment, next(spans, "within a minute"))


@register.filter
def moment(value: datetime | None) -> SafeString | str:
    """The moment itself, "2026-11-26 04:10 UTC"; app.js shows it in the reader's own time."""
    return "never" if value is None else _time(value, f"{value.astimezone(UTC):%Y-%m-%d %H:%M} UTC", "moment")


@register.filter
def day(value: datetime) -> SafeString:
    """The day of a moment, "2026-11-26"; app.js shows the reader's own day."""
    return _time(value, f"{value.astimezone(UTC):%Y-%m-%d}", "day")


@register.filter
def clock(value: datetime | None) -> SafeString | str:
    """Its time of day, "04:10:05", where the day is known; app.js shows it in the reader's own time."""
    return "–" if value is None else _time(value, f"{value.astimezone(UTC):%H:%M:%S}", "clock")


def _time(at: datetime, text: str, shown_as: str = "") -> SafeString:
    utc = at.astimezone(UTC)
    exact, whole = f"{utc:%Y-%m-%dT%H:%M:%SZ}", f"{utc:%Y-%m-%d %H:%M:%S} UTC"
    local = format_html(' data-local="{}"', shown_as) if shown_as else ""
    return format_html('<time datetime="{}" title="{}"{}>{}</time>', exact, whole, local, text)


@register.filter
def item(values: Mapping[object, object], key: object) -> object:
    """The value of a key that a variable holds; None where there is none."""
    return values.get(key)


@register.filter
def seconds(value: float | None) -> str:
    """A duration: "0.42 s", "3 min 5 s", "15 min", "2 h 10 min"."""
    if value is None:
        return "–"
    if value < 10:
        return f"{value:.2f} s"
    if value < 90:
        return f"{value:.0f} s"
    minutes, rest = divmod(round(value), 60)
    if minutes < 90:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


@register.filter
def roughly(value: float) -> str:
    """A duration that nobody knows exactly: "about 4 min"."""
    return in_rough_words(value)


@register.filter
def hours(value: float) -> str:
    """Seconds as hours, for columns: "0.25"."""
    return f"{value / 3600:.2f}"


@register.filter
def mebibytes(value: int | None) -> str:
    """Memory given in MiB: "512 MiB", "79.6 GiB"."""
    if value is None:
        return "–"
    return f"{value} MiB" if value < 1024 else f"{value / 1024:.1f} GiB"


@register.filter
def size(value: int | None) -> str:
    """Bytes: "98 B", "1.2 MB"."""
    return "–" if value is None else in_bytes(value)


@register.filter
def score(value: float | None) -> str:
    """A reward or metric with three decimals, or three digits where that says nothing; a dash when there is none."""
    if value is None:
        return "–"
    shown = f"{value:.3f}" if not value or LEAST_SHOWN <= abs(value) < MOST_SHOWN else f"{value:.3g}"
    return numbers.minus(shown)


@register.filter
def signed(value: float | None) -> str:
    """A difference with its sign: "+0.120", "−0.031"."""
    if value is None:
        return "–"
    text = f"{value:+.3f}" if abs(value) < MOST_SHOWN else f"{value:+.3g}"
    return numbers.minus(text) if round(value, 3) else "0.000"


@register.filter
def chance(value: float | None) -> str:
    """A p-value: "0.031", "< 0.001"; a dash where there is none."""
    if value is None:
        return "–"
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


@register.filter
def whole(value: int | None) -> str:
    """A count with thin separators: "12 345"."""
    return "–" if value is None else numbers.whole(value)


@register.filter
def cost(value: float | None) -> str:
    """US dollars: "$1.23"."""
    return dollars(value)


@register.filter
def cost_each(summary: EvaluationSummary) -> str:
    """What a stored rollout costs on the average."""
    return dollars(summary.cost / summary.stored) if summary.cost is not None and summary.stored else ""


@register.filter
def plus_minus(std_error: float | None) -> str:
    """A standard error: "± 0.012". One of 0 is no certainty, but values that do not differ."""
    if std_error is None:
        return ""
    return f"± {score(std_error)}" if std_error else "all alike"


@register.filter
def uncertainty(metric: MetricSummary) -> str:
    """What is not known of a mean: "± 0.012", or "≥ 0.861" where all rewards are 1; "" for a single example."""
    if metric.limit is None:
        return plus_minus(metric.std_error)
    return f"{'≥' if metric.mean else '≤'} {score(metric.limit)}"


@register.filter
def bound_in_words(metric: MetricSummary) -> str:
    """What the bound of `uncertainty` means; "" if it is a standard error."""
    if metric.limit is None:
        return ""
    end = "at least" if metric.mean else "at most"
    return f"All rewards are {metric.mean:.0f}. If they are from 0 to 1, the true mean is {end} this (95 % confidence)"


@register.filter
def shade(reward: float | None, shades: Shades) -> int | None:
    """The shade of a reward in the scale of those that are shown with it."""
    return shades.shade(reward)


@register.filter
def spaced(name: str) -> str:
    """The name of a state as people read it."""
    return name.replace("_", " ")


@register.filter
def state_badge(state: str) -> str:
    """The badge class of a state or outcome."""
    kind = STATE_BADGES.get(state, "")
    if kind == "live":
        return "badge badge--info badge--live"
    return f"badge badge--{kind}" if kind else "badge"


@register.filter
def failed(checks: Iterable[Check]) -> int:
    """How many of a version's checks did not pass."""
    return sum(check.failed for check in checks)


@register.filter
def lacking(checks: Iterable[Check]) -> int:
    """How many things they need."""
    return len(distinct(need for check in checks for need in check.needs))


@register.filter
def as_checks(stored: Iterable[JsonObject]) -> list[Check]:
    """The checks of a version as its row has them."""
    return [Check.model_validate(check) for check in stored]


@register.filter
def settings_in_words(config: JsonObject) -> tuple[str, ...]:
    """What of an evaluation's configuration decides what its score means."""
    return in_words(config)


@register.filter
def markdown(text: str) -> SafeString:
    """A README as sanitised HTML."""
    return render(text)


@register.filter
def message(text: str) -> SafeString:
    """What a model wrote, or was asked, as sanitised HTML."""
    return render_message(text)


@register.filter
def numbered_lines(text: str, path: str) -> SafeString:
    """A file's text in colours, each line with its number, which is a link to it (`#L12`)."""
    lines = enumerate(colour_lines(text.removesuffix("\n"), language_of(path)), 1)
    number = '<a href="#L{0}" data-line="{0}" aria-label="Line {0}" tabindex="-1"></a>'
    line = f'<span class="line" id="L{{0}}">{number}{{1}}</span>'
    return format_html_join("\n", line, lines)


@register.filter
def language_in(text: str, hint: str) -> str:
    """The language of what a tool was given or has answered; "" for plain text."""
    return tool_languages.language_in(text, hint)


@register.filter
def coloured(text: str, language: str) -> SafeString:
    """Source code in colours."""
    return colour(text, language)


@register.filter
def metric(value: float | None) -> str:
    """A metric or reward of any size, with at most four digits: "0.831", "12.5", "1.2e6"."""
    return "–" if value is None else numbers.minus(f"{value + 0.0:.4g}")  # no -0


@register.filter
def as_json(value: object) -> str:
    """For a script, in an attribute."""
    return json.dumps(value, cls=DjangoJSONEncoder)


@register.filter
def hundredfold(value: float) -> str:
    """A share as a width in a box of 100: 0.256 -> "25.6"."""
    return f"{100 * value:.4g}"


@register.filter
def units(text: str) -> str:
    """A message that terminals show too, with percent signs as pages write them: "69 %"."""
    return re.sub(r"(?<=\d)%", f"{numbers.THIN}%", text)


@register.filter
def percent(value: float | None) -> str:
    """A share: 0.256 -> "26 %"."""
    return "–" if value is None else f"{100 * value:.0f}\u202f%"
