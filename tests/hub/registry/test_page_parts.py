"""What the pages of a version are made of: the description and the file tree."""

from __future__ import annotations

import pytest
from envhub.protocol.base import JsonObject

from hub.registry.description import describe_for_page
from hub.registry.file_tree import file_tree
from tests.hub.web.showcase import DESCRIBED


def test_a_description_is_laid_out() -> None:
    found = describe_for_page(DESCRIBED)
    assert found is not None
    assert [(split.name, split.size) for split in found.splits] == [("eval", 200), ("train", 1000)]
    assert found.splits[0].rows[0][0] == ("question", "use the tool: 3*4")
    assert found.rewards[0] == ("right_answer", 0.8)
    assert [(item.name, item.default) for item in found.arguments] == [("num_eval", "200"), ("seed", None)]


def test_fields_of_a_configuration_follow_their_argument() -> None:
    fields = {"taskset": {"size": {"annotation": "int", "default": 3}}}
    schema = {"config": {"annotation": "Config", "fields": fields}}
    found = describe_for_page(DESCRIBED | {"args_schema": schema})
    assert found is not None
    assert [item.name for item in found.arguments] == ["config", "config.taskset", "config.taskset.size"]


@pytest.mark.parametrize("schema", [None, [1], {"x": 3}, {"config": {"fields": {"a": None}}}])
def test_an_odd_schema_is_left_out(schema: object) -> None:
    assert describe_for_page(DESCRIBED | {"args_schema": schema}) is not None


@pytest.mark.parametrize("described", [None, {}, {"env_class": 1, "splits": {}}, {"env_class": "E", "splits": [3]}])
def test_what_is_no_description_is_none(described: JsonObject | None) -> None:
    assert describe_for_page(described) is None


def test_folders_come_before_their_files_and_only_once() -> None:
    rows = file_tree([["z.py", 1], ["a/c.py", 2], ["a/b/d.py", 3], ["a/b/e.py", 4]])
    assert [(row.name, row.indent) for row in rows] == [
        ("a/", "in0"),
        ("b/", "in1"),
        ("d.py", "in2"),
        ("e.py", "in2"),
        ("c.py", "in1"),
        ("z.py", "in0"),
    ]
    assert rows[2].path == "a/b/d.py"
