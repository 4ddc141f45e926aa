from __future__ import annotations

from tests.scheduling import group_of, rank


def test_a_file_shares_a_process() -> None:
    names = ["tests/hub/test_a.py::test_a[x]", "tests/hub/test_a.py::test_b", "tests/hub/test_c.py::test_d"]
    assert [group_of(name) for name in names] == ["tests/hub/test_a.py", "tests/hub/test_a.py", "tests/hub/test_c.py"]


def test_end_to_end_files_share_two_hubs_unless_they_restart_or_attack_theirs() -> None:
    names = ("packages", "published", "sandboxes", "needs", "kills", "hostile", "production")
    paths = [f"tests/e2e/test_{name}.py" for name in names]
    packages, published, sandboxes, needs, *others = [group_of(f"{path}::test_a") for path in paths]
    assert (packages, sandboxes) == (published, needs)
    assert len({packages, sandboxes, *others}) == 5


def test_files_that_start_runners_share_prepared_interpreters() -> None:
    assert len({group_of(f"tests/envhub/runner/test_{name}.py::test_a") for name in ("releases", "pairs")}) == 1


def test_what_waits_for_processes_goes_first() -> None:
    names = ["tests/hub/test_a.py::test_a", "tests/workers/venvs/test_b.py::test_b", "tests/e2e/test_c.py::test_c"]
    assert sorted(names, key=rank) == names[::-1]
