from __future__ import annotations

from tests.scheduling import group_of


def test_an_end_to_end_file_shares_a_process_and_other_tests_do_not() -> None:
    names = ["tests/e2e/test_faults.py::test_a[x]", "tests/e2e/test_packages.py::test_b", "tests/hub/test_c.py::test_d"]
    assert [group_of(name) for name in names] == ["tests/e2e/test_faults.py", "tests/e2e/test_packages.py", names[2]]
