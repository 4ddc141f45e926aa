from __future__ import annotations

import pytest

from tests.envhub.cli.conftest import Cli, MakeCli
from tests.factories.accounts import make_user
from tests.factories.evals import create_hosted, create_pushed, make_record, make_records, start, store


@pytest.fixture
def two(cli: Cli) -> tuple[str, str]:
    """The ids of A, with rewards 0.5, 0 and 0, and B, with 1, 0.5 and 0."""
    rewards = (([0.0, 1.0], [0.0, 0.0], [0.0]), ([1.0, 1.0], [0.5, 0.5], [0.0]))
    made = [create_hosted(cli.user, num_examples=3) for _ in rewards]
    for evaluation, scored in zip(made, rewards, strict=True):
        start(evaluation)
        store(evaluation, make_records(*scored))
    return str(made[0].pk), str(made[1].pk)


def test_two_evaluations_are_compared_example_by_example(cli: Cli, two: tuple[str, str]) -> None:
    found = cli.json("eval", "compare", *two)
    assert found["reward"]["mean"] == pytest.approx(1 / 3)
    assert found["reward"]["std_error"] == pytest.approx(1 / 6)  # of 0.5, 0.5, 0
    assert [pair["example"] for pair in found["pairs"]] == [0, 1, 2]
    worst = cli.json("eval", "compare", *two, "--sort", "worse", "--examples", "1")
    assert [pair["example"] for pair in worst["pairs"]] == [2]


def test_the_table_says_what_may_be_concluded(cli: Cli, two: tuple[str, str]) -> None:
    shown = cli("eval", "compare", *two)
    assert "no clear difference" in shown.stdout
    assert "+0.3333" in shown.stdout
    assert "3: B ahead on 2, A ahead on 0" in shown.stdout
    assert f"/evaluations/compare?a={two[0]}&b={two[1]}" in shown.stderr


def test_equal_differences_have_no_interval(cli: Cli) -> None:
    made = [create_hosted(cli.user) for _ in range(3)]
    for evaluation, reward in zip(made, (0.0, 1.0, 0.5), strict=True):
        start(evaluation)
        store(evaluation, make_records([reward], [reward]))
    for ids in (made[:2], made):
        shown = cli("eval", "compare", *(str(one.pk) for one in ids)).stdout
        assert ("all equal" in shown, "+1 to" in shown) == (True, False)


def test_several_are_held_against_the_first(cli: Cli, two: tuple[str, str]) -> None:
    a, b = two
    third = create_hosted(cli.user, num_examples=3)
    start(third)
    store(third, make_records([0.0, 0.0], [1.0, 1.0], [0.0]))
    ids = (a, b, str(third.pk)[:30])
    found = cli.json("eval", "compare", *ids, "--only", "regressions")
    assert [(row["example"], row["rewards"]) for row in found["rows"]] == [(0, [0.5, 1.0, 0.0])]
    assert [(pair["a"], pair["b"]) for pair in found["pairs"]] == [(0, 1), (0, 2), (1, 2)]
    shown = cli("eval", "compare", *ids, "--examples", "1")
    assert "C - A" in shown.stdout
    assert "1 of 3 examples" in shown.stderr
    assert f"/evaluations/compare?a={a}&b={b}&b={third.pk}" in shown.stderr
    cli("eval", "compare", a, b, "latest", code=2)


def test_nothing_in_common_is_said_with_both_means_and_what_to_run(cli: Cli, two: tuple[str, str]) -> None:
    other = create_hosted(cli.user, split="train", env_args={"level": 2})
    shown = cli("eval", "compare", str(other.pk), two[0])
    assert "no example was scored by both" in shown.stdout
    assert [line.split()[:2] for line in shown.stdout.splitlines()[-2:]] == [["A", "-"], ["B", "0.200"]]
    assert "hub eval run alice/tiny-env@0.1.0 -m alice/stub" in shown.stderr
    assert """--split train --env-args '{"level": 2}'""" in shown.stderr


def test_a_pushed_result_of_other_prompts_is_said_to_be_matched_by_them(cli: Cli, two: tuple[str, str]) -> None:
    pushed = create_pushed(cli.user, f"{cli.user.owner.slug}/tiny-env")
    store(pushed, [make_record(example_hash="f" * 64, prompt="another question")])
    mixed = cli("eval", "compare", two[0], str(pushed.pk))
    assert "matched by each example's number, prompt and answer" in mixed.stderr
    assert "matched by" not in cli("eval", "compare", *two).stderr


def test_what_cannot_be_compared_is_explained(cli: Cli, two: tuple[str, str], make_cli: MakeCli) -> None:
    other = create_hosted(cli.user, name="other-env")
    assert "different environments" in cli("eval", "compare", two[0], str(other.pk), code=1).stderr
    make_cli(make_user("bob"))("eval", "compare", *two, code=1)
    cli("eval", "compare", two[0], "latest", code=2)
