"""Rollouts as an evaluation makes them: a prompt, an answer, its tokens with logprobs; 7 numbers that lists show."""

from __future__ import annotations

import random
from collections.abc import Iterator

from envhub.protocol.evals.rollouts import Outcome, RolloutRecord, Timing, TokenData, Turn, Usage

NUMBERS = 7  # reward, two metrics, prompt and completion tokens, turns, seconds
PROMPT, ANSWER, EACH = 300, 150, 8
KINDS = 64


def _example(dice: random.Random) -> RolloutRecord:
    words = ["".join(dice.choices("abcdefghij", k=6)) for _ in range(120)]
    asked, said = " ".join(words[:80]), " ".join(words[80:])
    tokens = TokenData(
        prompt_ids=tuple(dice.choices(range(150_000), k=PROMPT)),
        completion_ids=tuple(dice.choices(range(150_000), k=ANSWER)),
        logprobs=tuple(-dice.random() for _ in range(ANSWER)),
    )
    request = {"messages": [{"role": "user", "content": asked}], "temperature": 1.0}
    response = {"choices": [{"message": {"role": "assistant", "content": said}}]}
    turn = Turn(index=0, protocol="chat", model="load/stub", request=request, response=response, tokens=tokens)
    return RolloutRecord(
        example=0,
        rollout=0,
        example_hash="",
        outcome=Outcome.OK,
        reward=dice.choice([0.0, 1.0]),
        metrics={"exact": dice.random(), "length": float(len(said))},
        prompt=request["messages"],
        completion=[{"role": "assistant", "content": said}],
        turns=(turn,),
        usage=Usage(prompt_tokens=PROMPT, completion_tokens=ANSWER),
        timing=Timing(total_s=1.0 + dice.random()),
    )


def rollouts(seed: int) -> Iterator[RolloutRecord]:
    """Without end: EACH rollouts of example 0, then of 1, ... Their texts repeat after KINDS."""
    dice = random.Random(seed)
    kinds = [_example(dice) for _ in range(KINDS)]
    number = 0
    while True:
        example, rollout = divmod(number, EACH)
        fields = {"example": example, "rollout": rollout, "example_hash": f"{example:064x}"}
        yield kinds[number % KINDS].model_copy(update=fields)
        number += 1
