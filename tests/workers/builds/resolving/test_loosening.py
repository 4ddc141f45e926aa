"""The bounds of a constraint set hold until the package's requirements contradict them, and only then give way."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.workers.builds.resolving.test_resolve import no_source
from tests.workers.package_index import PackageIndex
from tests.workers.wheels import make_wheel
from workers.builds.index.catalog import Catalog
from workers.builds.resolving.loosening import Bounds, resolve_within
from workers.builds.resolving.resolve import Conflict, Question

OLD, NEW = "2025-06-01T10:00:00.5Z", "2026-06-01T10:00:00Z"
CUT = Bounds(before=datetime(2025, 12, 1, tzinfo=UTC))


class Offered:
    """Adds wheels to the operator's index, with their upload times."""

    def __init__(self, index: PackageIndex, folder: Path) -> None:
        self.index, self.folder = index, folder

    def __call__(self, name: str, version: str, uploaded: str = "", *requires: str) -> None:
        wheel = make_wheel(self.folder, name, version, requires=requires)
        self.index.add(wheel)
        if uploaded:
            self.index.uploaded[wheel.name] = uploaded


@pytest.fixture
def offered(index: PackageIndex, tmp_path: Path) -> Offered:
    return Offered(index, tmp_path)


async def ask(catalog: Catalog, data: Path, bounds: Bounds, *requirements: str) -> tuple[dict[str, str], str]:
    """Versions, and what the check says."""
    found = await resolve_within(Question(requirements), bounds, catalog, no_source, cache=data / "uv")
    return {one.name: one.version for one in found.chosen}, "; ".join(found.notes)


async def test_a_cut_gives_loose_requirements_what_there_was_by_then(
    offered: Offered, catalog: Callable[..., Catalog], data: Path
) -> None:
    offered("top", "1.0", OLD, "below>=1")
    offered("below", "1.5", OLD)
    offered("below", "2.0", NEW)
    assert await ask(catalog(), data, Bounds(), "top") == ({"top": "1.0", "below": "2.0"}, "")
    found, said = await ask(catalog(), data, CUT, "top")
    assert found == {"top": "1.0", "below": "1.5"}
    assert said == "files uploaded before 2025-12-01"


async def test_what_a_package_needs_later_files_of_is_not_cut_and_all_else_is(
    offered: Offered, catalog: Callable[..., Catalog], data: Path
) -> None:
    for name in ("young", "other"):
        offered(name, "1.0", OLD)
        offered(name, "2.0", NEW)
    found, said = await ask(catalog(), data, CUT, "young>=2", "other")
    assert found == {"young": "2.0", "other": "1.0"}
    assert "later files of young" in said


async def test_a_project_without_upload_times_is_not_cut_and_is_named(
    offered: Offered, catalog: Callable[..., Catalog], data: Path
) -> None:
    offered("dated", "1.0", OLD)
    offered("dated", "2.0", NEW)
    offered("undated", "2.0")
    found, said = await ask(catalog(), data, CUT, "dated", "undated")
    assert found == {"dated": "1.0", "undated": "2.0"}
    assert said.endswith("no upload times of undated")


async def test_an_index_in_html_is_not_cut(
    index: PackageIndex, offered: Offered, catalog: Callable[..., Catalog], data: Path
) -> None:
    index.json = False
    offered("library", "2.0", NEW)
    assert (await ask(catalog(), data, CUT, "library"))[0] == {"library": "2.0"}


async def test_a_pin_that_a_dependency_contradicts_gives_way_and_the_others_hold(
    offered: Offered, catalog: Callable[..., Catalog], data: Path
) -> None:
    offered("top", "1.0", "", "pinned==0.2.3", "held")
    for version in ("0.2.3", "0.2.36"):
        offered("pinned", version)
    for version in ("1.0", "2.0"):
        offered("held", version)
    found, said = await ask(catalog(), data, Bounds(("pinned==0.2.36", "held<2")), "top")
    assert found == {"top": "1.0", "pinned": "0.2.3", "held": "1.0"}
    assert said == "without the hub's bounds pinned==0.2.36: the requirements ask for something else"


async def test_a_pin_and_a_cut_that_are_both_contradicted_both_give_way(
    offered: Offered, catalog: Callable[..., Catalog], data: Path
) -> None:
    offered("top", "1.0", OLD, "pinned>=2")
    offered("pinned", "1.0", OLD)
    offered("pinned", "2.0", NEW)
    bounds = Bounds(("pinned<2",), CUT.before)
    assert (await ask(catalog(), data, bounds, "top"))[0] == {"top": "1.0", "pinned": "2.0"}


async def test_what_the_hub_alone_still_has_is_found_within_the_bounds(
    offered: Offered, kept_index: PackageIndex, catalog: Callable[..., Catalog], data: Path, tmp_path: Path
) -> None:
    for version in ("1.0", "2.0"):
        offered("held", version)
    kept_index.add(make_wheel(tmp_path, "gone", "1.0"))
    found, said = await ask(catalog(), data, Bounds(("held<2",)), "gone==1.0", "held")
    assert (found, said) == ({"gone": "1.0", "held": "1.0"}, "")


async def test_a_conflict_of_the_packages_own_remains_one(
    offered: Offered, catalog: Callable[..., Catalog], data: Path
) -> None:
    offered("one", "1.0", OLD, "shared<2")
    for version in ("1.0", "2.0"):
        offered("shared", version, OLD)
    with pytest.raises(Conflict, match=r"(?s)shared") as caught:
        await ask(catalog(), data, Bounds(("shared<3",), CUT.before), "one", "shared>=2")
    assert "shared<3" not in str(caught.value)


async def test_a_question_with_a_cut_and_one_without_are_not_confused(
    offered: Offered, catalog: Callable[..., Catalog], data: Path
) -> None:
    offered("library", "1.0", OLD)
    offered("library", "2.0", NEW)
    for bounds, version in ((CUT, "1.0"), (Bounds(), "2.0"), (CUT, "1.0")):
        assert (await ask(catalog(), data, bounds, "library"))[0] == {"library": version}
