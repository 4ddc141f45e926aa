"""What extra engines leave on other hosts is removed also by a driver that was started again meanwhile."""

from __future__ import annotations

from pathlib import Path

from workers.training.cluster.visited import Visited


def test_a_driver_that_is_started_again_knows_the_nodes_of_the_one_before(tmp_path: Path) -> None:
    first = Visited(tmp_path / "visited")
    for node in ("b", "a", "b"):
        first.add(node)
    assert Visited(tmp_path / "visited").apart_from(["b", "c"]) == {"a"}


def test_nodes_where_nothing_is_left_are_forgotten(tmp_path: Path) -> None:
    visited = Visited(tmp_path / "visited")
    visited.add("a")
    visited.forget()
    assert (visited.apart_from([]), Visited(tmp_path / "visited").apart_from([])) == (set(), set())
