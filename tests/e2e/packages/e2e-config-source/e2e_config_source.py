"""A greeting for each of two languages."""

import verifiers as vf


@vf.reward(weight=1.0)
async def said(task, state) -> float:
    last = vf.get_messages(state["completion"], role="assistant")[-1]
    return float(str(last.content) == task["answer"])


def source():
    return [{"question": "Greet in " + language, "answer": word} for language, word in (("en", "hello"), ("de", "hallo"))]


class GreetingsConfig(vf.EnvConfig):
    taskset: vf.TasksetConfig
    harness: vf.HarnessConfig


def load_environment(config: GreetingsConfig) -> vf.Env:
    taskset = vf.Taskset(source=source, rewards=[said], config=config.taskset)
    return vf.Env(taskset=taskset, harness=vf.Harness(config=config.harness))
