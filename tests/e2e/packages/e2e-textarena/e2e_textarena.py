"""Guess the word, in TextArena's own game."""

import verifiers as vf
from verifiers.envs.integrations.textarena_env import TextArenaEnv


def load_environment(n: int = 3) -> vf.Environment:
    parser = vf.XMLParser(fields=["guess"], answer_field="guess")

    async def found(completion, answer) -> float:
        return float(parser.parse_answer(completion) == f"[{answer}]")

    return TextArenaEnv(
        game="Wordle-v0", num_train_examples=n, parser=parser, rubric=vf.Rubric(funcs=[found], parser=parser)
    )
