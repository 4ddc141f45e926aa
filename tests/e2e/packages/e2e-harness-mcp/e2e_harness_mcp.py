"""Tools from an MCP server that the taskset starts by command, or by uvx."""

import re
import sys
from pathlib import Path

import verifiers as vf

COMMAND = {"command": sys.executable, "args": [str(Path(__file__).with_name("e2e_harness_mcp_server.py"))]}
UVX = {"command": "uvx", "args": ["mcp-server-time", "--local-timezone", "UTC"]}


class LettersConfig(vf.TasksetConfig):
    words: int = 2
    by_uvx: bool = False
    toolsets: tuple[dict[str, object], ...] = ({"tools": [COMMAND]},)


class Letters(vf.Taskset[LettersConfig]):
    def load_tasks(self) -> vf.Tasks:
        return [
            {"prompt": [{"role": "user", "content": f"How many letters has the word number {i}?"}], "max_turns": 3}
            for i in range(self.config.words)
        ]

    @vf.reward
    async def tool_answered(self, task, state) -> float:
        return float(bool(vf.get_messages(state.get("completion") or [], role="tool")))

    @vf.metric
    async def tool_said(self, task, state) -> float:
        """The last hour in the tool's answer, else its first number."""
        text = str(vf.get_messages(state.get("completion") or [], role="tool")[-1].content)
        hours, numbers = re.findall(r"T(\d+):", text), re.findall(r"\d+", text)
        return float(hours[-1] if hours else numbers[0])


def load_taskset(config: LettersConfig) -> Letters:
    if config.by_uvx:
        given = config.model_dump(exclude_unset=True)
        config = LettersConfig.model_validate({**given, "toolsets": [{"tools": [UVX]}]})
    return Letters(config=config)


def load_environment(config: vf.EnvConfig) -> vf.Env:
    return vf.Env(taskset=vf.load_taskset(config=config.taskset), harness=vf.Harness(config=config.harness))
