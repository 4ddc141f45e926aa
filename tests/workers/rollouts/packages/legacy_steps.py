"""Five turns of a legacy environment; each answer "yes" earns what STEPS says of its turn, at once."""

import verifiers as vf
from datasets import Dataset

STEPS = (0.0, 0.0, 0.5, 0.0, 1.0)
MODES = ("steps", "advantages", "none", "unusable")  # of the examples


class Steps(vf.MultiTurnEnv):
    async def add_trajectory_step(self, state, trajectory_step):
        number, mode = len(state["trajectory"]), state["info"]["mode"]
        text = str(trajectory_step["completion"][-1]["content"])
        if mode == "unusable":
            trajectory_step["reward"] = "much"
        elif mode == "advantages":
            trajectory_step["advantage"] = float(number)
        elif mode == "steps" and STEPS[number]:  # turns that earn nothing stay without a reward
            trajectory_step["reward"] = STEPS[number] * ("yes" in text)
        await super().add_trajectory_step(state, trajectory_step)

    async def env_response(self, messages, state, **kwargs):
        return [{"role": "user", "content": "and now?"}]


def load_environment(together: bool = False) -> vf.Environment:
    def total(state) -> float:
        return 7.0

    def compared(states) -> list[float]:
        return [1.0 for _ in states]

    rows = [{"question": "yes or no?", "info": {"mode": mode}} for mode in MODES]
    rubric = vf.Rubric(funcs=[total, compared] if together else [total])
    return Steps(max_turns=5, dataset=Dataset.from_list(rows), rubric=rubric)
