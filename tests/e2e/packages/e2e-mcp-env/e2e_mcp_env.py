"""Tools from a server process that speaks MCP over its standard input and output."""

import sys
from pathlib import Path

import verifiers as vf
from datasets import Dataset


def load_environment(n: int = 3) -> vf.Environment:
    dataset = Dataset.from_list([{"question": f"How many letters has {word}?", "answer": "3"} for word in ["ant"] * n])

    async def answered(completion) -> float:
        return float(bool(completion))

    servers = [{"name": "letters", "command": sys.executable, "args": [str(Path(__file__).with_name("e2e_mcp_env_server.py"))]}]
    return vf.MCPEnv(mcp_servers=servers, dataset=dataset, rubric=vf.Rubric(funcs=[answered]), max_turns=4)
