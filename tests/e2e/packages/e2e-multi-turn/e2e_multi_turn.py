"""A conversation that ends when the word is said, when patience ends, or by a last word of the environment."""

import verifiers as vf
from datasets import Dataset

TORN_DOWN = []


class PatienceEnv(vf.MultiTurnEnv):
    def __init__(self, patience: int = 2, **kwargs):
        super().__init__(max_turns=6, **kwargs)
        self.patience = patience

    async def setup_state(self, state, **kwargs):
        await super().setup_state(state)
        state["asked"] = 0
        state["events"] = ["setup"]
        state["opaque"] = object()  # not JSON: asked for as a state column, it must not break the record
        return state

    async def get_prompt_messages(self, state):
        state["events"].append("prompt")
        return await super().get_prompt_messages(state)

    async def add_trajectory_step(self, state, trajectory_step):
        trajectory_step["extras"]["number"] = len(state["trajectory"])
        await super().add_trajectory_step(state, trajectory_step)

    async def env_response(self, messages, state, **kwargs):
        state["asked"] += 1
        if state["asked"] >= 5:
            state["final_env_response"] = [{"role": "user", "content": "enough"}]
            return state["final_env_response"]
        return [{"role": "user", "content": f"again {state['asked']}"}]

    async def render_completion(self, state):
        await super().render_completion(state)
        state["events"].append("rendered")

    @vf.stop
    async def said_it(self, state) -> bool:
        if not state["trajectory"]:
            return False
        last = state["trajectory"][-1]["completion"][-1]
        text = last["content"] if isinstance(last, dict) else last.content
        return "please" in str(text)

    @vf.stop(priority=10)
    async def lost_patience(self, state) -> bool:
        return state["asked"] >= self.patience

    @vf.cleanup
    async def note_cleanup(self, state) -> None:
        state["events"].append("cleanup")

    @vf.cleanup(priority=10)
    async def note_early_cleanup(self, state) -> None:
        state["events"].append("early cleanup")

    @vf.teardown
    async def note_teardown(self) -> None:
        TORN_DOWN.append(True)
        print("e2e-multi-turn: teardown ran")

    @vf.teardown(priority=10)
    async def note_early_teardown(self) -> None:
        print("e2e-multi-turn: early teardown ran")


def load_environment(n: int = 4, patience: int = 2) -> vf.Environment:
    dataset = Dataset.from_list(
        [{"prompt": [{"role": "user", "content": f"Ask nicely, {i}."}], "answer": "please"} for i in range(n)]
    )

    async def hooks_ran(state) -> float:
        return float({"setup", "prompt"} <= set(state["events"]))

    def turns(state) -> float:
        return float(len(state["trajectory"]))

    return PatienceEnv(patience=patience, dataset=dataset, rubric=vf.Rubric(funcs=[hooks_ran, turns], weights=[1.0, 0.0]))
