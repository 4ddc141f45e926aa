"""The cgroup drivers on trees of plain files; v1 or v2 for real is the doctor's part."""

import subprocess
import sys
from pathlib import Path

import pytest

from workers.sandbox.cgroups import (
    NONE,
    Tree,
    enable_controllers,
    find_tree,
    make_group,
    planned_paths,
    read_field,
    remove_cgroup,
)
from workers.sandbox.interface import MIB, Limits

LIMITS = Limits(memory_bytes=64 * MIB, pids=20, cpus=0.5)


def version2(mount: Path, path: str, enabled: str) -> Path:
    directory = mount / path
    directory.mkdir(parents=True)
    (directory / "cgroup.procs").write_text("")
    (directory / "cgroup.controllers").write_text(enabled)
    (directory / "cgroup.subtree_control").write_text(enabled)
    return directory


def own(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "own"
    path.write_text(text)
    return path


def test_v2_puts_a_box_below_the_workers_group(tmp_path: Path) -> None:
    mount = tmp_path / "fs"
    parent = version2(mount, "hub.slice/worker.service", "cpu memory pids")
    tree = find_tree(mount, own(tmp_path, "0::/hub.slice/worker.service\n"))
    assert (tree.driver, tree.has_cpu) == ("v2", True)
    group = make_group(tree, "abc", LIMITS)
    made = parent / "envhub-abc"
    assert group.paths == planned_paths(tree, "abc") == [made]
    assert (made / "memory.max").read_text() == str(64 * MIB)
    assert (made / "memory.swap.max").read_text() == "0"
    assert (made / "pids.max").read_text() == "28"
    assert (made / "cpu.max").read_text() == "50000 100000"


def test_v2_goes_beside_the_worker_when_its_own_group_may_have_no_children(tmp_path: Path) -> None:
    mount = tmp_path / "fs"
    version2(mount, "app.slice", "memory pids")
    inner = version2(mount, "app.slice/worker.scope", "")
    (inner / "cgroup.subtree_control").unlink()
    (inner / "cgroup.subtree_control").mkdir()  # every use is refused, as the kernel does
    tree = find_tree(mount, own(tmp_path, "0::/app.slice/worker.scope\n"))
    assert set(tree.parents.values()) == {mount / "app.slice"}


def test_v2_without_the_memory_controller_is_none(tmp_path: Path) -> None:
    mount = tmp_path / "fs"
    parent = version2(mount, "worker", "hugetlb")
    (parent / "cgroup.subtree_control").chmod(0o444)
    (parent / "cgroup.procs").unlink()
    assert find_tree(mount, own(tmp_path, "0::/worker\n")) == NONE


def test_v1_uses_each_controllers_own_path(tmp_path: Path) -> None:
    mount = tmp_path / "fs"
    for path in ("memory/deep/er", "pids", "cpu"):
        (mount / path).mkdir(parents=True)
        (mount / path / "cgroup.procs").write_text("")
    tree = find_tree(mount, own(tmp_path, "4:memory:/deep/er\n8:pids:/\n1:cpu:/\n0::/\n"))
    make_group(tree, "abc", LIMITS)
    assert tree.driver == "v1"
    assert (mount / "memory/deep/er/envhub-abc/memory.limit_in_bytes").read_text() == str(64 * MIB)
    assert (mount / "cpu/envhub-abc/cpu.cfs_quota_us").read_text() == "50000"


def test_v2_counts_what_the_kernel_killed(tmp_path: Path) -> None:
    mount = tmp_path / "fs"
    version2(mount, "w", "memory pids")
    group = make_group(find_tree(mount, own(tmp_path, "0::/w\n")), "abc", LIMITS)
    (group.paths[0] / "memory.events").write_text("low 0\noom 3\noom_kill 2\n")
    (group.paths[0] / "memory.current").write_text("4096\n")
    assert (group.stats().oom_kills, group.stats().memory_bytes) == (2, 4096)


def test_v2_takes_kills_without_the_groups_own_limit_for_the_hosts(tmp_path: Path) -> None:
    mount = tmp_path / "fs"
    version2(mount, "w", "memory pids")
    group = make_group(find_tree(mount, own(tmp_path, "0::/w\n")), "abc", LIMITS)
    (group.paths[0] / "memory.events").write_text("max 7\noom 0\noom_kill 2\n")
    assert (group.stats().oom_kills, group.stats().host_kills) == (0, 2)


@pytest.mark.parametrize(("peak", "swap", "counted"), [(9, 9, (0, 1)), (64, 9, (1, 0)), (9, 64, (1, 0))])
def test_v1_tells_the_groups_own_limit_by_its_peak(
    tmp_path: Path, peak: int, swap: int, counted: tuple[int, int]
) -> None:
    mount = tmp_path / "fs"
    for path in ("memory", "pids"):
        (mount / path).mkdir(parents=True)
        (mount / path / "cgroup.procs").write_text("")
    group = make_group(find_tree(mount, own(tmp_path, "4:memory:/\n8:pids:/\n")), "abc", LIMITS)
    place = group.directories["memory"]
    (place / "memory.oom_control").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n")
    (place / "memory.max_usage_in_bytes").write_text(f"{peak * MIB}\n")
    (place / "memory.memsw.max_usage_in_bytes").write_text(f"{swap * MIB - 4096}\n")
    assert (group.stats().oom_kills, group.stats().host_kills) == counted


@pytest.mark.sandbox
def test_the_kernel_tells_a_groups_own_limit_from_one_above_it(tmp_path: Path) -> None:
    tree = find_tree()
    if tree.driver == "none":
        pytest.skip("this host lets us make no groups")
    for inner, outer, counted in ((32, 64, (1, 0)), (64, 32, (0, 1))):
        above = make_group(tree, f"test-{tmp_path.name}-{inner}", Limits(memory_bytes=outer * MIB))
        below = Tree(tree.driver, above.directories)
        if tree.driver == "v2":
            enable_controllers(above.paths[0])
        group = make_group(below, "in", Limits(memory_bytes=inner * MIB))
        try:
            killed = subprocess.run([sys.executable, "-c", FILL, *group.procs], check=False)
            assert killed.returncode == -9
            assert (group.stats().oom_kills, group.stats().host_kills) == counted
        finally:
            for path in (*group.paths, *above.paths):
                remove_cgroup(path)


FILL = """
import sys
for path in sys.argv[1:]:
    open(path, "w").write("0")
held = b"1" * (128 << 20)
"""


def test_a_field_that_is_not_there_is_zero(tmp_path: Path) -> None:
    assert read_field(tmp_path / "none", "oom_kill") == 0


def test_a_limit_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    mount = tmp_path / "fs"
    parent = version2(mount, "w", "memory pids")
    (parent / "envhub-abc" / "memory.max").mkdir(parents=True)
    with pytest.raises(OSError):
        make_group(find_tree(mount, own(tmp_path, "0::/w\n")), "abc", LIMITS)
