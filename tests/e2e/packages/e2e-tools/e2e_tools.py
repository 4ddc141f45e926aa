"""Arithmetic by tools, stateless and with a per-rollout ledger."""

import verifiers as vf
from datasets import Dataset


def add(a: int, b: int) -> int:
    """Add two whole numbers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


async def divide(a: float, b: float) -> float:
    """Divide a by b."""
    return a / b


def forgotten(x: str) -> str:
    """Removed again before the first rollout."""
    return x


class LedgerEnv(vf.StatefulToolEnv):
    """Tools see a ledger that the model does not."""

    def __init__(self, **kwargs):
        super().__init__(tools=[], **kwargs)
        self.add_tool(self.record, args_to_skip=["ledger"])

    async def setup_state(self, state, **kwargs):
        state["ledger"] = []
        result = await super().setup_state(state)
        return result if result is not None else state

    def update_tool_args(self, tool_name, tool_args, messages, state, **kwargs):
        return {**tool_args, "ledger": state["ledger"]}

    async def record(self, amount: int, ledger: list) -> str:
        """Write an amount into the ledger."""
        ledger.append(amount)
        return f"{len(ledger)} entries"


def load_environment(n: int = 4, kind: str = "plain") -> vf.Environment:
    dataset = Dataset.from_list([{"question": f"What is {i}+1?", "answer": str(i + 1)} for i in range(n)])

    async def answered(completion) -> float:
        return float(bool(completion))

    async def entries(state) -> float:
        return float(len(state.get("ledger") or []))

    rubric = vf.Rubric(funcs=[answered, entries], weights=[1.0, 0.0])
    if kind == "ledger":
        return LedgerEnv(dataset=dataset, rubric=rubric, max_turns=4)
    stop_errors = [ZeroDivisionError] if kind == "strict" else None
    env = vf.ToolEnv(
        dataset=dataset,
        rubric=rubric,
        tools=[add, divide],
        max_turns=4,
        error_formatter=lambda error: f"the tool failed: {error}",
        stop_errors=stop_errors,
    )
    env.add_tool(forgotten)
    env.remove_tool(forgotten)
    return env
