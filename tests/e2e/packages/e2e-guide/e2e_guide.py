"""What the harness guide shows beside the e2e packages' own ground: names without a module, task controls, programs."""

import os
import sys

import verifiers as vf


class Extractor:
    def __call__(self, completion) -> str:
        messages = vf.get_messages(completion, role="assistant")
        return str(messages[-1].content or "").strip() if messages else ""


def build_extractor() -> Extractor:
    return Extractor()


async def search(query: str) -> str:
    """Search."""
    return f"found {query}"


async def lookup(query: str) -> str:
    """Look up: no task shows it."""
    return query


async def framework(task: vf.Task, state: vf.State) -> vf.State:
    """A program of this module, named without it: it sees only the tools that the task shows."""
    tools = state.get_tools()
    state["seen"] = sorted(tools)
    result = await tools["search"](query=task["answer"])
    state["completion"] = [{"role": "assistant", "content": result}]
    return state


class GuideConfig(vf.TasksetConfig):
    split: str = "train"
    files: bool = False
    objects: dict[str, str] = {"extract": "build_extractor"}
    bindings: dict[str, str] = {"exact.extract": "objects.extract"}


class Guide(vf.Taskset[GuideConfig]):
    def load_tasks(self) -> vf.Tasks:
        program = {"program": {"env": {"E2E_WORD": "tea"}, "args": ["--loud"]}} if self.config.files else {}
        rows = [
            {
                "system_prompt": "Be brief.",
                "prompt": [{"role": "user", "content": f"Find {word}."}],
                "answer": word,
                "split": split,
                "max_turns": 3,
                "tools": {"show": ["search"]},
                **program,
            }
            for split, word in (("train", "tea"), ("train", "milk"), ("test", "tea"))
        ]
        return [row for row in rows if row["split"] == self.config.split]

    @vf.reward(weight=1.0)
    async def exact(self, task, state, extract) -> float:
        return float(extract(state.get("completion") or []).lower() == f"found {task['answer']}")

    @vf.metric
    async def tools_seen(self, task, state) -> float:
        return float(len(state.get("seen") or []))

    @vf.metric
    async def shouted(self, task, state) -> float:
        return float(extract_upper(state.get("completion") or []))


def extract_upper(completion) -> bool:
    return build_extractor()(completion).isupper()


class GuideHarnessConfig(vf.HarnessConfig):
    timeout_seconds: int = 120


def load_taskset(config: GuideConfig) -> Guide:
    taskset = Guide(config=config)
    taskset.add_toolset(vf.Toolset(tools=[search, lookup]))
    return taskset


def load_harness(config: GuideHarnessConfig) -> vf.Harness:
    return vf.Harness(config=config)


def load_environment(config: vf.EnvConfig) -> vf.Env:
    return vf.Env(taskset=vf.load_taskset(config=config.taskset), harness=vf.load_harness(config=config.harness))


if __name__ == "__main__":
    said = f"found {os.environ['E2E_WORD']}"
    print(said.upper() if "--loud" in sys.argv else said)
