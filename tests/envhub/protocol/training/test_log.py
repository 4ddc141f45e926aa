"""Which process said a line of a training run's log."""

from __future__ import annotations

import pytest
from envhub.protocol.training.log import lines_of, processes_of

LABELS = ("words", "my-env")


@pytest.mark.parametrize(
    ("raw", "process", "text"),
    [
        ("learner: step 1", "learner", "step 1"),
        ("\x1b[32mlearner: step 1\x1b[0m\r", "learner", "step 1"),
        ("words: a print: of the package", "words", "a print: of the package"),
        ("engine: loading", "engine", "engine: loading"),
        ("the vllm engine is ready", "engine", "the vllm engine is ready"),
        ("other: it is nobody's name", "run", "other: it is nobody's name"),
        ("", "run", ""),
    ],
)
def test_a_line_belongs_to_who_is_named_in_front(raw: str, process: str, text: str) -> None:
    (found,) = lines_of([raw + "\n"], LABELS)
    assert (found.process, found.text) == (process, text)


def test_lines_are_whole_whatever_the_pieces() -> None:
    found = lines_of(["lear", "ner: a\nlearn", "er: b\n\n", "wor", "ds: c"], LABELS)
    assert [(line.process, line.text) for line in found] == [
        ("learner", "a"),
        ("learner", "b"),
        ("run", ""),
        ("words", "c"),
    ]


def test_an_environment_cannot_take_a_name_that_has_a_meaning() -> None:
    assert processes_of(["engine", "words"]) == ["all", "run", "learner", "engine", "words"]
