"""Products with a calculator at hand: ToolEnv, one tool call and then the answer."""

import ast
import operator
import random

import verifiers as vf
from datasets import Dataset

OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}


def evaluate(node: ast.AST) -> int:
    """Evaluate a parsed expression of whole numbers, +, - and *."""
    if isinstance(node, ast.Expression):
        return evaluate(node.body)
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
        return OPERATORS[type(node.op)](evaluate(node.left), evaluate(node.right))
    raise ValueError("only whole numbers, +, - and * are allowed")


def calculate(expression: str) -> str:
    """Calculate an expression of whole numbers.

    Args:
        expression: for example "3*4"
    """
    if len(expression) > 100:
        raise ValueError("the expression is too long")
    return str(evaluate(ast.parse(expression, mode="eval")))


def make_rows(n: int, largest: int, seed: int) -> list[dict]:
    """`n` products of two numbers from 2 to `largest`."""
    rng = random.Random(seed)
    pairs = [(rng.randint(2, largest), rng.randint(2, largest)) for _ in range(n)]
    return [{"question": f"use the tool: {a}*{b}", "answer": str(a * b)} for a, b in pairs]


def right_answer(completion, answer: str) -> float:
    """1 when the last message is the product."""
    last = completion[-1] if completion else {}
    return float(last.get("role") == "assistant" and str(last.get("content") or "").strip() == answer)


def used_the_tool(completion) -> float:
    """1 when the tool was called."""
    return float(any(message.get("role") == "tool" for message in completion))


def load_environment(num_train: int = 1000, num_eval: int = 200, largest: int = 12, seed: int = 0) -> vf.Environment:
    """Reward 0.8 x right answer + 0.2 x used the tool."""
    return vf.ToolEnv(
        tools=[calculate],
        max_turns=3,
        dataset=Dataset.from_list(make_rows(num_train, largest, seed)),
        eval_dataset=Dataset.from_list(make_rows(num_eval, largest, seed + 1_000_003)),
        rubric=vf.Rubric(funcs=[right_answer, used_the_tool], weights=[0.8, 0.2]),
    )
