"""Rows by a callable source, signals as arguments."""

import verifiers as vf


def rows(count: int = 3):
    return [{"prompt": [{"role": "user", "content": f"Say {i}."}], "answer": str(i), "max_turns": 1} for i in range(count)]


@vf.reward(weight=1.0)
async def spoke(task, state) -> float:
    return float(bool(state.get("completion")))


@vf.metric
async def steps(task, state) -> float:
    return float(len(state["trajectory"]))


def load_environment() -> vf.Env:
    return vf.Env(taskset=vf.Taskset(source=rows, rewards=[spoke], metrics=[steps], system_prompt="Be brief."))
