from __future__ import annotations

from tests.scheduling import group_of


def test_end_to_end_tests_share_a_process_and_others_do_not() -> None:
    names = ["tests/e2e/test_faults.py::test_a[x]", "tests/e2e/test_packages.py::test_b", "tests/hub/test_c.py::test_d"]
    assert [group_of(name) for name in names] == ["tests/e2e/", "tests/e2e/", names[2]]


def test_a_file_with_hubs_of_its_own_is_a_group_of_its_own() -> None:
    assert group_of("tests/e2e/test_production.py::test_a") == "tests/e2e/test_production.py"
