"""Whose failure a trial shows: the package's, something outside that is lacking, or ours.

Everything is ours until it is shown otherwise: a need names what is lacking; a fault of the package is one that a bare
installation of the same release shows, too (tests.corpus.bare).
"""

from __future__ import annotations

from enum import StrEnum

from envhub.protocol.packages import VersionState

from tests.corpus.bare import fails_alike
from tests.corpus.trials import Trial

REFUSED_FOR_NEEDS = "refused (needs_unmet)"


class Whose(StrEnum):
    """The verdict."""

    NOBODY = "-"
    PACKAGE = "package"
    OUTSIDE = "outside"
    OURS = "ours"


def judge(trial: Trial, *, bare: bool) -> Whose:
    """`bare`: install what failed without the hub, and see whether it fails alike there."""
    view = trial.view
    if view is not None and view.needs:
        return Whose.OUTSIDE
    failed = view is None or view.state is not VersionState.READY or any(check.failed for check in view.checks)
    if not failed and trial.evaluation.startswith("succeeded") and not trial.faults:
        return Whose.NOBODY
    if bare and fails_alike(trial):
        return Whose.PACKAGE
    return Whose.OURS
