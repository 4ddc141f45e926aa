"""The trust card of a version in a terminal: its checks, and what it needs with the command that meets each."""

from __future__ import annotations

import textwrap

from rich.markup import escape

from envhub.cli.terminal.session import Session, printable
from envhub.cli.terminal.tables import Fit
from envhub.protocol.registry.needs import Need, command_for, hint_for
from envhub.protocol.registry.packages import Check, VersionState, VersionView

LAST_LINES = 10  # of a failed check
ADVICE_LINES = 3
_MARKS = {True: "[green]ok  [/green]", False: "[red]FAIL[/red]"}


def print_card(session: Session, version: VersionView) -> None:
    """Every check, then the needs, then the releases that were tried before the one that was taken."""
    for check in version.checks:
        _print_check(session, check)
    print_needs(session, version)
    if len(version.tried) > 1:
        rows = [(one.verifiers or "none", "chosen" if one.chosen else one.stage, one.message, f"{one.seconds:.1f}")
                for one in version.tried]  # fmt: skip
        session.out.print("\nreleases of verifiers that were tried:")
        session.table(("verifiers", "ended at", "why", "seconds"), rows, fit=Fit(wrap=("why",)))


def print_needs(session: Session, version: VersionView) -> None:
    """What it lacks, and what each of its runs must bring."""
    reference = f"{version.owner}/{version.name}@{version.version}"
    if version.needs:
        session.out.print("needs:")
    for need in version.needs:
        said = f": {need.detail}" if need.detail else ""
        session.out.print(f"  [yellow]{escape(printable(need.words))}[/yellow]{escape(printable(said))}")
        session.out.print(f"      {escape(printable(_way(need, reference)))}")
    if version.granted:
        words = ", ".join(need.words for need in version.granted)
        session.out.print(escape(printable(f"its checks are given {words}: each run must bring the same")))


def _way(need: Need, reference: str) -> str:
    """A line to paste, or words."""
    command = command_for(need, reference)
    if not command:
        return hint_for(need, reference)
    return f"{command}   # administrators" if need.is_administrators else command


def is_fine(version: VersionView) -> bool:
    """Ready, nothing lacking, and no check failed but that for a README."""
    failed = [check for check in version.checks if check.failed and check.name != "readme"]
    return version.state is VersionState.READY and not version.needs and not failed


def _print_check(session: Session, check: Check) -> None:
    mark = "[yellow]need[/yellow]" if check.needs and not check.passed else _MARKS[check.passed]
    session.out.print(f"  {mark} {escape(printable(f'{check.name}: {check.summary}'))}")
    if check.failed and check.detail:
        session.out.print(
            escape(textwrap.indent(_shortened(printable(check.detail), printable(advice(check))), " " * 9))
        )


def advice(check: Check) -> str:
    """What to do about a failed check: builds write it as the first paragraph of its detail, before a traceback."""
    first, parted, _ = check.detail.partition("\n\n")
    return first if parted and first.count("\n") < ADVICE_LINES else ""


def _shortened(detail: str, advice: str) -> str:
    """The advice and the last lines, where a traceback or a compiler says what is wrong; --json and the page have all
    of them."""
    lines = detail.removeprefix(advice).strip().splitlines()
    left = len(lines) - LAST_LINES
    last = [f"({left} lines before)", *lines[left:]] if left > 1 else lines
    return "\n".join([advice, *last] if advice else last)
