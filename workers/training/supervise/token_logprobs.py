"""A waiting step's segments with the learner's log-probabilities in their token views."""

from __future__ import annotations

import hashlib
from pathlib import Path

from envhub.packaging.segments import replace_extras
from envhub.protocol.base import JsonObject
from envhub.protocol.training import TOKENS_KEY, RolloutTokens, StepReport, StepSegment

from workers.training.learner.token_logprobs import ByTurn, read_logprobs
from workers.training.samples.rollout import RolloutKey


def with_logprobs(folder: Path, report: StepReport, logprobs: Path) -> StepReport:
    """The report with segments that hold what the file `logprobs` knows; as it is when there is none.

    The waiting report stays untouched, so that a reporter that is killed here does the same again.
    """
    known = read_logprobs(logprobs)
    if not known:
        return report
    return report.model_copy(update={"segments": tuple(_rewritten(folder, one, known) for one in report.segments)})


def _rewritten(folder: Path, segment: StepSegment, known: dict[RolloutKey, ByTurn]) -> StepSegment:
    def change(place: int, rollout: int, extras: JsonObject) -> JsonObject:
        own = known.get(RolloutKey(int(segment.rows[place].group), rollout))
        if own is None:
            return extras
        return {**extras, TOKENS_KEY: noted(RolloutTokens.model_validate(extras[TOKENS_KEY]), own).model_dump()}

    content = replace_extras(folder / segment.sha256, change)
    sha256 = hashlib.sha256(content).hexdigest()
    (folder / sha256).write_bytes(content)
    return segment.model_copy(update={"sha256": sha256, "size": len(content)})


def noted(view: RolloutTokens, known: ByTurn) -> RolloutTokens:
    """The view with the learner's log-probabilities. Both are in the order of the rollout's trained turns."""
    trained = [place for place, turn in enumerate(view.turns) if any(turn.trained)]
    values = [known[turn] for turn in sorted(known)]
    if [len(view.turns[place].trained) for place in trained] != [len(one) for one in values]:
        return view
    turns = list(view.turns)
    for place, one in zip(trained, values, strict=True):
        turns[place] = turns[place].model_copy(update={"logprobs": one})
    return RolloutTokens(turns=tuple(turns))
