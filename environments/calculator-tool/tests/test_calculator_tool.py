import pytest
from calculator_tool import calculate, right_answer, used_the_tool


def test_the_tool_calculates():
    assert calculate("3*4-2") == "10"


@pytest.mark.parametrize("expression", ["__import__('os')", "2**99", "1/0", "9" * 101])
def test_the_tool_refuses_everything_else(expression):
    with pytest.raises((ValueError, SyntaxError)):
        calculate(expression)


def test_rewards():
    said = [{"role": "tool", "content": "12"}, {"role": "assistant", "content": "12"}]
    assert right_answer(said, "12") == used_the_tool(said) == 1.0
    assert right_answer(said[:1], "12") == 0.0
