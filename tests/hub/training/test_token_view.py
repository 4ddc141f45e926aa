"""The token view: what each token is said to be, pages of long rollouts, where a new sample began."""

from __future__ import annotations

from envhub.packaging.calls import shortened
from envhub.protocol.evals.rollouts import RolloutRecord, TokenData, Turn
from envhub.protocol.training.runs import TOKENS_KEY, RolloutTokens, TokenTraining
from envhub.protocol.training.trainer import Loss, TrainerTable

from hub.training.ratio_bounds import RatioBounds
from hub.training.token_view import PAGE, Scene, advantage_class, extends, token_page, visible
from tests.factories.evals import make_record


def make_turn(
    index: int, prompt: tuple[int, ...], completion: tuple[int, ...], *messages: str, **fields: object
) -> Turn:
    roles = ("user", "assistant")
    asked = [{"role": roles[place % 2], "content": text} for place, text in enumerate(messages)]
    values = {"index": index, "protocol": "chat", "model": "m", "request": {"messages": asked}, "response": {}}
    tokens = TokenData(prompt_ids=prompt, completion_ids=completion, logprobs=(-0.7,) * len(completion))
    return Turn.model_validate(values | {"tokens": tokens} | fields)


def rollout(*turns: Turn, notes: tuple[TokenTraining, ...] = ()) -> RolloutRecord:
    extras = {TOKENS_KEY: RolloutTokens(turns=notes).model_dump(mode="json")}
    return make_record(turns=turns, extras=extras)


def test_a_token_carries_a_class_for_each_colouring_and_says_its_numbers() -> None:
    note = TokenTraining(trained=(True,), advantages=(0.5,), logprobs=(-0.2,), versions=(3,))
    turn = make_turn(0, (1,), (42,), "hi", token_texts=("yes",))
    page = token_page(rollout(turn, notes=(note,)), Scene(6, 0.5))
    (token,) = page.turns[0].tokens
    assert token.classes == "u3 p2 r5 m1 s2"
    assert token.title == "advantage 0.5 · p 0.497 (logprob \u22120.7) · ratio 1.65 · trained · version 3 · id 42"
    assert page.available == ("advantage", "logprob", "ratio", "mask", "staleness")


def test_what_was_not_kept_cannot_be_chosen() -> None:
    page = token_page(rollout(make_turn(0, (1,), (42,), "hi")), Scene(1))
    assert page.available == ("logprob",)
    assert page.turns[0].tokens[0].pieces == (("#42 ", False),)


def test_a_long_rollout_is_shown_in_pages_across_its_turns() -> None:
    turns = (make_turn(0, (1,), (7,) * 3000, "a"), make_turn(1, (1,), (8,) * 3000, "b"))
    first, second = (token_page(rollout(*turns), Scene(1), page=page) for page in (1, 2))
    assert [len(turn.tokens) for turn in first.turns] == [3000, PAGE - 3000]
    assert [(turn.number, turn.first, len(turn.tokens)) for turn in second.turns] == [(1, 1000, 2000)]
    assert (second.page, second.pages, second.first, second.last) == (2, 2, 4001, 6000)
    assert token_page(rollout(*turns), Scene(1), page=99).page == 2


def test_a_turn_that_does_not_extend_the_one_before_is_a_prefix_break() -> None:
    first = make_turn(0, (1, 2), (3,), "a")
    assert extends(make_turn(1, (1, 2, 3, 4), (5,), "a", "x", "b"), first) is True
    assert extends(make_turn(1, (1, 9, 3, 4), (5,), "a", "x", "b"), first) is False
    assert extends(make_turn(1, (1,), (5,), "a", tokens=None), first) is None


def test_a_later_turn_shows_only_what_is_new_in_its_prompt() -> None:
    first, second = make_turn(0, (1,), (2,), "a"), make_turn(1, (1,), (2,), "a", "answer", "b")
    rewritten = make_turn(1, (1,), (2,), "other", "answer", "b")
    for later, new in ((second, ["b"]), (rewritten, ["other", "answer", "b"])):
        page = token_page(rollout(*shortened([first, later])), Scene(1))
        assert [message.text for message in page.turns[1].prompt] == new


def test_white_space_and_control_characters_are_visible() -> None:
    assert list(visible(" a\n\t\x00")) == [
        ("\u00b7", True), ("a", False), ("\u21b5\n", True), ("\u2192\t", True), ("\u2400", True),
    ]  # fmt: skip


def test_advantages_are_shaded_by_sign_and_size() -> None:
    assert [advantage_class(value, 1.0) for value in (0.9, 0.4, 0.0, -0.1, -1.0, None)] == [
        "u3", "u2", "a0", "n1", "n3", "",
    ]  # fmt: skip


def test_notes_of_another_shape_do_not_break_the_page() -> None:
    record = make_record(turns=(make_turn(0, (1,), (2,), "a"),), extras={TOKENS_KEY: {"turns": 7}})
    assert token_page(record, Scene(1)).total == 1


def test_a_token_beyond_the_bounds_of_the_loss_is_marked() -> None:
    note = TokenTraining(trained=(True,) * 3, advantages=(0.5,) * 3, logprobs=(-0.7, -0.3, -1.4))
    turn = make_turn(0, (1,), (41, 42, 43), "hi")
    bounds = RatioBounds.of(TrainerTable(loss=Loss.DAPO).model_dump(mode="json"))
    tokens = token_page(rollout(turn, notes=(note,)), Scene(1, bounds=bounds)).turns[0].tokens
    assert ["cut" in token.classes.split() for token in tokens] == [False, True, False]
    assert "ratio 1.49, cut off" in tokens[1].title
    assert bounds.text == "dapo clips at 0.8 and 1.28"


def test_tokens_without_a_ratio_say_why() -> None:
    dropped = TokenTraining(trained=(False,))
    page = token_page(rollout(make_turn(0, (1,), (42,), "hi"), notes=(dropped,)), Scene(1, left_out="zero signal"))
    assert "ratio" in page.available
    (token,) = page.turns[0].tokens
    assert "rx" in token.classes.split()
    assert "not trained (zero signal)" in token.title
    unknown = TokenTraining(trained=(True,), advantages=(0.5,))
    page = token_page(rollout(make_turn(0, (1,), (42,), "hi"), notes=(unknown,)), Scene(1))
    assert "ratio" not in page.available
    assert "the learner's logprob was not kept" in page.turns[0].tokens[0].title
