from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.workers.package_index import PackageIndex
from tests.workers.wheels import make_wheel
from workers.builds.index.catalog import Catalog
from workers.builds.sources.claims import claimed_names, requires_dist
from workers.builds.sources.wheel_files import WheelFiles


async def test_claims_follow_the_owners_packages_and_spare_what_is_reserved(
    owner_index: PackageIndex, catalog: Callable[..., Catalog], data: Path, tmp_path: Path
) -> None:
    owner_index.add(
        make_wheel(tmp_path, "first", requires=["second", "numpy"]),
        make_wheel(tmp_path, "second", requires=["first"]),
        make_wheel(tmp_path, "numpy"),
        make_wheel(tmp_path, "verifiers", "9.0"),
        make_wheel(tmp_path, "unrelated"),
    )
    owner = catalog().owner
    assert owner is not None
    requirements = ["First>=1", "verifiers>=0.1", "absent"]
    claimed = await claimed_names(owner, requirements, reserved={"verifiers"}, files=WheelFiles(data / "blobs"))
    assert claimed == {"first", "second", "numpy"}


async def test_what_an_owners_package_needs_for_an_extra_is_claimed_where_the_extra_is_asked_for(
    owner_index: PackageIndex, catalog: Callable[..., Catalog], data: Path, tmp_path: Path
) -> None:
    owner_index.add(
        make_wheel(tmp_path, "first", requires=["second; extra == 'big-one'", "third; extra == 'other'"]),
        make_wheel(tmp_path, "second"),
        make_wheel(tmp_path, "third"),
    )
    owner = catalog().owner
    assert owner is not None
    requirements = ["first", "first[Big_One]"]
    claimed = await claimed_names(owner, requirements, reserved=set(), files=WheelFiles(data / "blobs"))
    assert claimed == {"first", "second"}


def test_requirements_of_extras_are_left_out() -> None:
    lines = ["a>=1", "b; extra == 'dev'", "c; python_version < '4'"]
    metadata = "Name: x\n" + "".join(f"Requires-Dist: {line}\n" for line in lines)
    assert requires_dist(metadata) == ["a>=1", "c; python_version < '4'"]
