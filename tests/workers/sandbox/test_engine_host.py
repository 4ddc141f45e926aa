"""Which cgroups the engine's daemon takes for a container's: what is in them is killed in the end."""

import os
from pathlib import Path

import pytest

from workers.sandbox import BoxFailed
from workers.sandbox.cgroups import Tree
from workers.sandbox.engine import host
from workers.sandbox.engine.host import CGROUPS, cgroup_parent, groups_of

V1 = Tree("v1", {"memory": CGROUPS / "memory/worker", "pids": CGROUPS / "pids", "cpu": CGROUPS / "cpu"})
V2 = Tree("v2", dict.fromkeys(("memory", "pids", "cpu"), CGROUPS / "worker"))


@pytest.mark.parametrize("tree", [V1, V2])
def test_a_process_outside_of_containers_groups_is_no_container(tree: Tree) -> None:
    for pid in (os.getpid(), 1):
        with pytest.raises(BoxFailed, match=r"no \w+ group of their own"):
            groups_of(pid, tree, cgroup_parent(tree, Path("/run/engine")))


def test_one_group_that_is_not_its_own_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(lines: str) -> dict[str, str]:
        monkeypatch.setattr(host, "PROCESSES", tmp_path)
        (tmp_path / "7").mkdir(exist_ok=True)
        (tmp_path / "7/cgroup").write_text(lines)
        return groups_of(7, V1, "/worker/engine")

    own = "/worker/engine/libpod-1"
    assert told(f"3:memory:{own}\n2:pids:{own}\n1:name=systemd:{own}\n0::/\n") == {
        "memory": f"/sys/fs/cgroup/memory{own}",
        "pids": f"/sys/fs/cgroup/pids{own}",
        "systemd": f"/sys/fs/cgroup/systemd{own}",
    }
    for other in ("/", "/worker", "/worker/engine", "/worker/engine/conmon", "/libpod-1"):
        with pytest.raises(BoxFailed, match="no pids group of their own"):
            told(f"3:memory:{own}\n2:pids:{other}\n0::/\n")
