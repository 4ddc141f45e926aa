"""Find a secret number from "higher" and "lower": MultiTurnEnv with its own stop condition."""

import random
import re

import verifiers as vf
from datasets import Dataset


def make_rows(n: int, largest: int, seed: int) -> list[dict]:
    """`n` games with a secret from 1 to `largest`."""
    rng = random.Random(seed)
    return [{"question": f"guess 1-{largest}", "answer": str(rng.randint(1, largest))} for _ in range(n)]


def read_guess(message) -> int | None:
    """The first number of a message."""
    match = re.search(r"\d{1,6}", str(message["content"] or ""))
    return int(match.group()) if match else None


class GuessNumberEnv(vf.MultiTurnEnv):
    """Answers every guess with "higher" or "lower"; ends when the secret was named."""

    async def setup_state(self, state, **kwargs):
        state["solved"] = False
        state["guesses"] = 0
        return await super().setup_state(state, **kwargs) or state

    @vf.stop
    async def was_solved(self, state) -> bool:
        trajectory = state["trajectory"]
        if trajectory:
            state["guesses"] = len(trajectory)
            state["solved"] = read_guess(trajectory[-1]["completion"][-1]) == int(state["answer"])
        return state["solved"]

    async def env_response(self, messages, state, **kwargs):
        guess, secret = read_guess(messages[-1]), int(state["answer"])
        if guess is None:
            return [{"role": "user", "content": "a number please"}]
        return [{"role": "user", "content": "higher" if guess < secret else "lower"}]


def solved(state) -> float:
    """1 when the secret was named."""
    return float(state["solved"])


def speed(state) -> float:
    """1 for the first guess, less for each further one, 0 when not solved."""
    return 1 / state["guesses"] if state["solved"] else 0.0


def load_environment(
    num_train: int = 1000, num_eval: int = 200, largest: int = 9, max_turns: int = 4, seed: int = 0
) -> vf.Environment:
    """Reward 0.8 x solved + 0.2 x speed."""
    return GuessNumberEnv(
        max_turns=max_turns,
        dataset=Dataset.from_list(make_rows(num_train, largest, seed)),
        eval_dataset=Dataset.from_list(make_rows(num_eval, largest, seed + 1_000_003)),
        rubric=vf.Rubric(funcs=[solved, speed], weights=[0.8, 0.2]),
    )
