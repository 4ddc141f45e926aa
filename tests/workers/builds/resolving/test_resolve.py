from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.workers.package_index import PackageIndex
from tests.workers.wheels import make_wheel
from workers.builds.errors import BuildFailed
from workers.builds.index.catalog import Catalog
from workers.builds.resolving.resolve import Chosen, Question, resolve
from workers.index.pages import IndexFile
from workers.runs.errors import RunFailed
from workers.venvs.unprivileged import Tool, ToolResult

Catalogs = Callable[..., Catalog]


async def no_source(source: IndexFile) -> str:
    raise BuildFailed("source_does_not_build", f"{source.filename} was asked for")


async def ask(catalog: Catalog, data: Path, *requirements: str, **more: tuple[str, ...]) -> dict[str, Chosen]:
    found = await resolve(Question(requirements, **more), catalog, no_source, cache=data / "uv")  # type: ignore[arg-type]
    return {one.name: one for one in found}


@pytest.mark.parametrize(("json", "metadata"), [(True, True), (True, False), (False, True), (False, False)])
async def test_dependencies_are_followed_on_every_kind_of_index(
    json: bool, metadata: bool, index: PackageIndex, catalog: Catalogs, data: Path, tmp_path: Path
) -> None:
    index.json, index.metadata = json, metadata
    index.add(make_wheel(tmp_path, "top", requires=["below>=1"]), make_wheel(tmp_path, "below", "1.5"))
    index.add(make_wheel(tmp_path, "below", "0.9"))
    found = await ask(catalog(), data, "top")
    assert {name: one.version for name, one in found.items()} == {"top": "1.0", "below": "1.5"}
    assert all(one.file.sha256 for one in found.values())


async def test_constraints_bound_what_nobody_pinned(
    index: PackageIndex, catalog: Catalogs, data: Path, tmp_path: Path
) -> None:
    index.add(*(make_wheel(tmp_path, "library", version) for version in ("0.1.14", "0.4.0")))
    found = await ask(catalog(), data, "library>=0.1.8", constraints=("library==0.1.14",))
    assert found["library"].version == "0.1.14"


async def test_an_override_wins_over_the_packages_own_bound(
    index: PackageIndex, catalog: Catalogs, data: Path, tmp_path: Path
) -> None:
    index.add(*(make_wheel(tmp_path, "library", version) for version in ("0.1.14", "0.4.0")))
    found = await ask(catalog(), data, "library>=0.4", overrides=("library==0.1.14",))
    assert found["library"].version == "0.1.14"


async def test_the_best_wheel_for_this_python_is_chosen(
    index: PackageIndex, catalog: Catalogs, data: Path, tmp_path: Path
) -> None:
    made = catalog()
    best = str(made.interpreter.tags()[0])
    for tag in ("py3-none-any", best, "cp27-cp27m-win32"):
        index.add(make_wheel(tmp_path, "fast", tag=tag))
    assert (await ask(made, data, "fast"))["fast"].file.filename == f"fast-1.0-{best}.whl"


async def test_a_conflict_is_explained(index: PackageIndex, catalog: Catalogs, data: Path, tmp_path: Path) -> None:
    index.add(make_wheel(tmp_path, "one", requires=["shared<2"]), make_wheel(tmp_path, "two", requires=["shared>=2"]))
    index.add(make_wheel(tmp_path, "shared", "1.0"), make_wheel(tmp_path, "shared", "2.0"))
    with pytest.raises(BuildFailed, match=r"(?s)one.*shared<2") as caught:
        await ask(catalog(), data, "one", "two")
    assert caught.value.code == "dependency_conflict"
    assert "index.envhub.invalid" not in caught.value.failure.message
    assert caught.value.detail == ""  # it would say the same again


async def test_what_no_index_has_is_named_with_what_to_do(
    index: PackageIndex, catalog: Catalogs, data: Path, tmp_path: Path
) -> None:
    index.add(make_wheel(tmp_path, "one", requires=["private-lib"]))
    for requirement in ("private-lib>=1", "one"):
        with pytest.raises(BuildFailed, match="private-lib") as caught:
            await ask(catalog(), data, requirement)
        hint = caught.value.failure.hint
        assert hint.startswith("No index of this hub has private-lib. Push it to the same owner")
        assert "WORKER_PACKAGE_INDEX_URL" in hint


async def test_what_the_index_has_in_older_releases_alone_is_told_without_the_names_of_our_indexes(
    index: PackageIndex, catalog: Catalogs, data: Path, tmp_path: Path
) -> None:
    index.add(make_wheel(tmp_path, "library", "0.1"))
    with pytest.raises(BuildFailed, match="only library==") as caught:
        await ask(catalog(), data, "library>=0.2")
    assert "hint" not in caught.value.failure.message
    assert caught.value.failure.hint.startswith("Relax or correct")


async def test_a_full_disk_is_the_workers_fault(
    index: PackageIndex, catalog: Catalogs, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def full(tool: Tool) -> ToolResult:
        return ToolResult(2, "", "error: Failed to write to the client cache\n  No space left on device (os error 28)")

    monkeypatch.setattr("workers.builds.resolving.resolve.run_tool", full)
    with pytest.raises(RunFailed) as caught:
        await ask(catalog(), data, "anything")
    assert (caught.value.failure.code, caught.value.failure.kind) == ("worker_disk_full", "infrastructure")


async def test_a_cache_that_cannot_be_written_is_the_workers_fault(
    catalog: Catalogs, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused(tool: Tool) -> ToolResult:
        lock = f"failed to open file `{data}/uv/.lock`: Permission denied (os error 13)"
        return ToolResult(2, "", f"error: Could not acquire lock\n  cause: {lock}")

    monkeypatch.setattr("workers.builds.resolving.resolve.run_tool", refused)
    with pytest.raises(RunFailed) as caught:
        await ask(catalog(), data, "anything")
    assert (caught.value.failure.code, caught.value.failure.kind) == ("worker_cache_refused", "infrastructure")


@pytest.mark.parametrize(
    "line", ["evil @ http://127.0.0.1:9/evil-1.0.whl", "evil @ git+https://host/x.git", "evil @ file:///etc/passwd"]
)
async def test_a_direct_reference_is_refused_before_uv_sees_it(line: str, catalog: Catalogs, data: Path) -> None:
    with pytest.raises(BuildFailed) as caught:
        await ask(catalog(), data, line)
    assert caught.value.code == "direct_reference"
    assert not (data / "uv").exists()


async def test_a_direct_reference_in_a_dependency_is_not_followed(
    index: PackageIndex, owner_index: PackageIndex, catalog: Catalogs, data: Path, tmp_path: Path
) -> None:
    target = owner_index.url.replace("/simple/", "/files/evil/evil-1.0-py3-none-any.whl")
    owner_index.add(make_wheel(tmp_path, "evil"))
    index.add(make_wheel(tmp_path, "top", requires=[f"evil @ {target}"]))
    with pytest.raises(BuildFailed):
        await ask(catalog(), data, "top")


async def test_the_operators_index_wins_for_what_the_owner_did_not_claim(
    index: PackageIndex, owner_index: PackageIndex, catalog: Catalogs, data: Path, tmp_path: Path
) -> None:
    index.add(make_wheel(tmp_path / "a", "library", "1.0"))
    owner_index.add(make_wheel(tmp_path / "b", "library", "9.0"), make_wheel(tmp_path / "b", "mine"))
    found = await ask(catalog(), data, "library", "mine")
    assert (found["library"].version, found["library"].owned) == ("1.0", False)
    assert found["mine"].owned


async def test_a_claimed_name_comes_from_its_owner_alone(
    index: PackageIndex, owner_index: PackageIndex, catalog: Catalogs, data: Path, tmp_path: Path
) -> None:
    index.add(make_wheel(tmp_path / "a", "secret-tools", "99.0"))
    owner_index.add(make_wheel(tmp_path / "b", "secret-tools", "1.0"))
    found = await ask(catalog(frozenset({"secret-tools"})), data, "secret-tools")
    assert (found["secret-tools"].version, found["secret-tools"].owned) == ("1.0", True)


async def test_a_second_resolution_asks_the_index_nothing(
    index: PackageIndex, catalog: Catalogs, data: Path, tmp_path: Path
) -> None:
    index.add(make_wheel(tmp_path, "top", requires=["below"]), make_wheel(tmp_path, "below"))
    await ask(catalog(), data, "top")
    index.asked.clear()
    await ask(catalog(), data, "top")
    assert index.asked == []


async def test_a_release_that_appears_later_is_found_when_it_is_needed(
    index: PackageIndex, catalog: Catalogs, data: Path, tmp_path: Path
) -> None:
    index.add(make_wheel(tmp_path, "library", "1.0"))
    await ask(catalog(), data, "library")
    index.add(make_wheel(tmp_path, "library", "2.0"))
    assert (await ask(catalog(), data, "library>=2"))["library"].version == "2.0"


async def test_a_release_that_the_index_deleted_comes_from_the_hubs_store(
    index: PackageIndex, kept_index: PackageIndex, catalog: Catalogs, data: Path, tmp_path: Path
) -> None:
    index.add(make_wheel(tmp_path, "library", "2.0"))
    kept_index.add(make_wheel(tmp_path, "library", "1.0"))
    found = await ask(catalog(), data, "library==1.0")
    assert (found["library"].version, found["library"].owned) == ("1.0", False)


async def test_a_project_that_left_the_index_comes_from_the_hubs_store(
    kept_index: PackageIndex, catalog: Catalogs, data: Path, tmp_path: Path
) -> None:
    kept_index.add(make_wheel(tmp_path, "library", "1.0"))
    assert (await ask(catalog(), data, "library"))["library"].version == "1.0"


async def test_a_yanked_release_that_the_hub_keeps_can_still_be_asked_for_by_a_range(
    index: PackageIndex, kept_index: PackageIndex, catalog: Catalogs, data: Path, tmp_path: Path
) -> None:
    wheel = make_wheel(tmp_path, "library", "1.5")
    index.add(wheel, make_wheel(tmp_path, "library", "2.0"))
    index.yanked.add(wheel.name)
    kept_index.add(wheel)
    assert (await ask(catalog(), data, "library<2"))["library"].version == "1.5"


async def test_what_the_index_can_satisfy_is_never_asked_of_the_hubs_store(
    index: PackageIndex, kept_index: PackageIndex, catalog: Catalogs, data: Path, tmp_path: Path
) -> None:
    index.add(make_wheel(tmp_path, "library", "1.0"))
    kept_index.add(make_wheel(tmp_path, "library", "9.0"))
    assert (await ask(catalog(), data, "library"))["library"].version == "1.0"
    assert kept_index.asked == []


async def test_the_hubs_store_never_stands_in_for_an_owners_package(
    owner_index: PackageIndex, kept_index: PackageIndex, catalog: Catalogs, data: Path, tmp_path: Path
) -> None:
    owner_index.add(make_wheel(tmp_path / "a", "secret-tools", "1.0"))
    kept_index.add(make_wheel(tmp_path / "b", "secret-tools", "2.0"))
    with pytest.raises(BuildFailed):
        await ask(catalog(frozenset({"secret-tools"})), data, "secret-tools>=2")
