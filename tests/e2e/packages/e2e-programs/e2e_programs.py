"""The same task solved by four kinds of program; which one is a matter of the [eval.harness] table."""

import json
import os
import sys
import urllib.request

import verifiers as vf

COMMAND = [sys.executable, "-m", "e2e_programs"]


def shout(word: str) -> str:
    """Upper case."""
    return word.upper()


async def call_tools(task: vf.Task, state: vf.State) -> vf.State:
    """A program in this process: it uses the taskset's tools as plain callables, and no model."""
    tools = state.get_tools()
    state["completion"] = [{"role": "assistant", "content": str(await tools["shout"](word="hello"))}]
    return state


async def ask_model(task: vf.Task, state: vf.State) -> vf.State:
    """A program in this process that calls the model through the intercepted endpoint, like a foreign framework."""
    client = state.get_client(api="chat_completions")
    reply = await client.chat.completions.create(model=state.get_model(), messages=[dict(m) for m in task["prompt"]])
    state["answer"] = reply.choices[0].message.content
    return state


class WordsConfig(vf.TasksetConfig):
    count: int = 3


class Words(vf.Taskset[WordsConfig]):
    def load_tasks(self) -> vf.Tasks:
        return [
            {"prompt": [{"role": "user", "content": f"Say {i}."}], "answer": str(i), "max_turns": 2}
            for i in range(self.config.count)
        ]

    @vf.reward
    async def said_something(self, task, state) -> float:
        return float(bool(vf.get_messages(state.get("completion") or [], role="assistant")))

    @vf.metric
    async def model_calls(self, task, state) -> float:
        return float(len(state["trajectory"]))


def load_taskset(config: WordsConfig) -> Words:
    words = Words(config=config)
    words.add_toolset(vf.Toolset(tools=[shout]))
    return words


class ProgramHarnessConfig(vf.HarnessConfig):
    kind: str = "none"
    timeout_seconds: int = 60


class ProgramHarness(vf.Harness):
    config: ProgramHarnessConfig


PROGRAMS = {
    "none": None,
    "callable": "e2e_programs:call_tools",
    "fn": {"fn": "e2e_programs:ask_model"},
    "command": {"command": COMMAND, "env": {"E2E_GREETING": "hello"}},
}


def load_harness(config: ProgramHarnessConfig) -> ProgramHarness:
    data = {**config.model_dump(exclude_unset=True), "program": PROGRAMS[config.kind]}
    return ProgramHarness(config=ProgramHarnessConfig.model_validate(data))


class ProgramsConfig(vf.EnvConfig):
    taskset: WordsConfig = WordsConfig()
    harness: ProgramHarnessConfig = ProgramHarnessConfig()


def load_environment(config: ProgramsConfig) -> vf.Env:
    return vf.Env(taskset=load_taskset(config.taskset), harness=load_harness(config.harness))


def main() -> None:
    """The command program: one model call over the endpoint that its environment names."""
    body = {"model": "any", "messages": [{"role": "user", "content": os.environ["E2E_GREETING"]}]}
    request = urllib.request.Request(
        os.environ["OPENAI_BASE_URL"].rstrip("/") + "/chat/completions",
        json.dumps(body).encode(),
        {"Content-Type": "application/json", "Authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        print(json.load(answer)["choices"][0]["message"]["content"])


if __name__ == "__main__":
    main()
