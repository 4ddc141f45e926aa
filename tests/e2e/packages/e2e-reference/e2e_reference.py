"""What the v0 reference lists beside environments and rubrics: setters, utilities, clients, overridden tool calls."""

import verifiers as vf
from datasets import Dataset
from verifiers.cli.plugins.prime import PRIME_PLUGIN_API_VERSION, get_plugin

vf.setup_logging("INFO")
PROGRAM = ["-m", "verifiers.cli.commands.eval", "--help"]


def echo(text: str) -> str:
    """Say it back."""
    return text


class CountingTools(vf.ToolEnv):
    """Counts its tool calls, and asks the model once more by itself before the rollout is scored."""

    async def call_tool(self, tool_name, tool_args, tool_call_id, **kwargs):
        message = await super().call_tool(tool_name, tool_args, tool_call_id, **kwargs)
        self.answered = getattr(self, "answered", 0) + 1
        return message

    @vf.cleanup
    async def ask_once_more(self, state) -> None:
        response = await self.get_model_response(state, [vf.UserMessage(content="And?")], tool_defs=[])
        assert isinstance(response, vf.Response)
        state["more"] = response.message.content


def load_environment(n: int = 3) -> vf.Environment:
    dataset = Dataset.from_list([{"question": f"Echo {i}.", "answer": f"so {i}\n#### {i}"} for i in range(n)])

    async def hash_answer(answer, task, info) -> float:
        return float(vf.extract_hash_answer(answer) or -1)

    async def asked_more(state) -> float:
        return float("more" in state and state["is_completed"] and state["trajectory_id"] != "")

    async def plugin(state) -> float:
        command = get_plugin().build_module_command("verifiers.cli.commands.eval", ["--help"])
        return float(command[-3:] == PROGRAM and get_plugin().api_version == PRIME_PLUGIN_API_VERSION)

    with vf.quiet_verifiers(), vf.log_level("DEBUG"):
        env = CountingTools(dataset=dataset, tools=[echo], rubric=vf.Rubric(funcs=[hash_answer]), max_turns=9)
    env.add_rubric(vf.Rubric(funcs=[asked_more, plugin], weights=[1.0, 0.5]))
    env.set_kwargs(max_turns=3, score_rollouts=True)
    env.set_max_seq_len(4096)
    assert len(env.get_dataset(n=2)) == 2
    assert vf.Tool(name="x", description="", parameters={}).strict is None
    assert vf.ClientConfig(client_type="anthropic_messages", api_base_url="http://127.0.0.1/v1").endpoint_configs == []
    assert issubclass(vf.AnthropicMessagesClient, vf.Client)
    return env
