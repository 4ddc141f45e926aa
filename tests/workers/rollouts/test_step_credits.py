"""Steps that the environment rewarded find the turns that the interceptor saw."""

from __future__ import annotations

import pytest
from envhub.protocol.evals.rollouts import Turn
from envhub.protocol.runner import StepCredit

from workers.rollouts.step_credits import StepsDiffer, credited


def turns(*ids: str, **refused: object) -> tuple[Turn, ...]:
    made = [
        Turn(index=index, protocol="chat", model="m", request={}, response={}, response_id=one)
        for index, one in enumerate(ids)
    ]
    return tuple(one.model_copy(update=refused) if one.response_id == "refused" else one for one in made)


def rewards(found: tuple[Turn, ...]) -> list[float | None]:
    return [turn.reward for turn in found]


def test_by_the_answers_id_whatever_the_order() -> None:
    steps = [StepCredit(response_id="b", reward=2.0), StepCredit(response_id="a", reward=1.0, advantage=0.5)]
    found = credited(turns("a", "b", "c"), steps)
    assert rewards(found) == [1.0, 2.0, None]
    assert [turn.advantage for turn in found] == [0.5, None, None]


def test_what_the_environment_wrote_itself_belongs_to_the_turn_before() -> None:
    steps = [
        StepCredit(reward=0.25),
        StepCredit(response_id="a", reward=1.0),
        StepCredit(response_id="not ours", reward=2.0),
        StepCredit(response_id="b"),
    ]
    assert rewards(credited(turns("a", "b"), steps)) == [3.25, None]


def test_by_order_where_the_library_keeps_no_ids() -> None:
    steps = [StepCredit(reward=1.0), StepCredit(reward=2.0)]
    assert rewards(credited(turns("a", "refused", "b", status=400), steps)) == [1.0, None, 2.0]
    with pytest.raises(StepsDiffer, match="2 steps with rewards and 3 answered"):
        credited(turns("a", "b", "c"), steps)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e200])
def test_values_that_no_credit_can_be_are_refused(value: float) -> None:
    with pytest.raises(StepsDiffer, match="reward or advantage"):
        credited(turns("a"), [StepCredit(response_id="a", reward=value)])


def test_steps_of_nobodys_answers_are_refused() -> None:
    with pytest.raises(StepsDiffer, match="no step"):
        credited(turns("a"), [StepCredit(response_id="x", reward=1.0)])
