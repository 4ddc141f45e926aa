"""Which of several engines a request goes to: where its prefix is cached, unless that engine is too busy."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from workers.training.coordinator.routing import PrefixRouter

ENGINES = ("a", "b", "c", "d")
SYSTEM = {"role": "system", "content": "You are careful."}


def idle(*busy: str) -> dict[str, int]:
    return {engine: 20 * busy.count(engine) for engine in ENGINES}


def conversation(example: int, turns: int) -> dict[str, object]:
    messages = [SYSTEM, *({"role": "user", "content": f"{example}/{turn}"} for turn in range(turns))]
    return {"messages": messages}


@pytest.mark.parametrize(
    "grown",
    [
        lambda size: conversation(7, size),
        lambda size: {"tokens": list(range(300 * size))},
        lambda size: {"prompt": "word " * 100 * size},
    ],
)
def test_a_conversation_stays_where_its_beginning_is_cached(grown: object) -> None:
    router = PrefixRouter()
    first = router.pick(grown(1), idle())  # type: ignore[operator]
    others = [engine for engine in ENGINES if engine != first]
    loads = {first: 1, **dict.fromkeys(others, 0)}
    assert {router.pick(grown(size), loads) for size in range(2, 6)} == {first}  # type: ignore[operator]


def test_an_engine_that_is_much_busier_than_the_others_is_passed_over() -> None:
    router = PrefixRouter()
    first = router.pick(conversation(1, 1), idle())
    assert router.pick(conversation(1, 2), idle(first)) != first


def test_an_engine_that_went_is_not_asked_for() -> None:
    router = PrefixRouter()
    first = router.pick(conversation(1, 1), idle())
    left = {engine: 0 for engine in ENGINES if engine != first}
    assert router.pick(conversation(1, 2), left) in left


def test_most_turns_of_groups_that_share_a_system_prompt_find_their_conversation() -> None:
    """64 conversations of 8 turns, at random: nine in ten go where their last turn was, and no engine starves."""
    router, chance = PrefixRouter(), random.Random(1)
    loads = dict.fromkeys(ENGINES, 0)
    last: dict[int, str] = {}
    flying: list[str] = []
    found, asked = 0, Counter[str]()
    turns = [example for example in range(64) for _ in range(8)]
    chance.shuffle(turns)
    begun: Counter[int] = Counter()
    for example in turns:
        begun[example] += 1
        engine = router.pick(conversation(example, begun[example]), loads)
        found += last.get(example) == engine
        last[example] = engine
        asked[engine] += 1
        loads[engine] += 1
        flying.append(engine)
        if len(flying) > 32:
            loads[flying.pop(0)] -= 1
    assert found > 0.9 * (len(turns) - 64)
    assert min(asked.values()) > 0.6 * len(turns) / len(ENGINES)


def test_it_remembers_a_bounded_number_of_prefixes() -> None:
    router = PrefixRouter(kept=10)
    for example in range(100):
        router.pick(conversation(example, 3), idle())
    assert len(router._asked) == 10
