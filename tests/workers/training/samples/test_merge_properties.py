from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from tests.factories.training import build_rollout, build_turn
from workers.training.samples.merge import merge_turns
from workers.training.samples.rollout import Rollout

TOKENS = st.integers(0, 3)  # few, so that prefixes collide


@st.composite
def conversations(draw: st.DrawFn) -> Rollout:
    """Turns that go on from an earlier one, break it in the middle, or begin anew."""
    histories: list[list[int]] = [draw(st.lists(TOKENS, min_size=1, max_size=4))]
    turns = []
    for _ in range(draw(st.integers(1, 6))):
        history = draw(st.sampled_from(histories))
        cut = draw(st.one_of(st.just(len(history)), st.integers(0, len(history))))
        prompt = [*history[:cut], *draw(st.lists(TOKENS, min_size=int(cut == 0), max_size=3))]
        completion = draw(st.lists(TOKENS, max_size=4))
        turns.append(build_turn(prompt, completion))
        histories.append([*prompt, *completion])
    return build_rollout(*turns)


@given(conversations())
def test_every_sampled_token_is_trained_once_behind_its_own_context(rollout: Rollout) -> None:
    sampled = Counter(
        (number, tuple(turn.prompt_ids.tolist() + turn.completion_ids[:at].tolist()), int(turn.completion_ids[at]))
        for number, turn in enumerate(rollout.turns)
        for at in range(len(turn.completion_ids))
    )
    trained = Counter(
        (int(sample.turns[at]), tuple(sample.ids[:at].tolist()), int(sample.ids[at]))
        for sample in merge_turns(rollout).samples
        for at in range(len(sample))
        if sample.train[at]
    )
    assert trained == sampled
    assert max(trained.values(), default=1) == 1


@given(conversations())
def test_samples_breaks_and_forks_add_up(rollout: Rollout) -> None:
    merge = merge_turns(rollout)
    assert len(merge.samples) == bool(merge.samples) + merge.breaks + merge.forks
