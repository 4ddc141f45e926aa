"""Rollouts are episodes of an OpenEnv server in the same box; each has a session of its own."""

import atexit
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import verifiers as vf
from datasets import Dataset
from openenv.core import GenericEnvClient


def start_server() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen([sys.executable, str(Path(__file__).with_name("e2e_openenv_server.py")), str(port)])
    atexit.register(server.kill)
    url = f"http://127.0.0.1:{port}"
    for _ in range(600):
        try:
            urllib.request.urlopen(f"{url}/health", timeout=1)
            return url
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("the OpenEnv server did not start")


class Counting(vf.MultiTurnEnv):
    def __init__(self, url: str, **kwargs) -> None:
        super().__init__(**kwargs)
        self.url = url

    async def setup_state(self, state, **kwargs):
        state["session"] = GenericEnvClient(base_url=self.url)
        await state["session"].connect()
        await state["session"].reset()
        state["earned"], state["over"] = 0.0, False
        return state

    @vf.stop
    async def over(self, state) -> bool:
        return state["over"]

    async def env_response(self, messages, state, **kwargs):
        said = messages[-1]["content"] if isinstance(messages[-1], dict) else messages[-1].content
        result = await state["session"].step({"number": int(said)})
        state["earned"] += result.reward or 0.0
        state["over"] = bool(result.done)
        return [{"role": "user", "content": result.observation["text"]}]

    @vf.cleanup
    async def end_session(self, state) -> None:
        await state.pop("session").close()


def load_environment() -> vf.Environment:
    dataset = Dataset.from_list([{"question": "count from 1 to 3", "answer": "3"}] * 3)

    async def earned(state) -> float:
        return state["earned"]

    return Counting(start_server(), dataset=dataset, rubric=vf.Rubric(funcs=[earned]), max_turns=5)
