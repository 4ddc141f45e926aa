"""The host's resources for the daemon: uids for containers, and cgroups."""

import os
from hashlib import sha256
from pathlib import Path

from ..cgroups import Tree, find_tree, remove_cgroup
from ..errors import BoxFailed, Unavailable
from ..identity import FIRST_UID, LAST_UID, Identity, new_identity

GROUP = "envhub-engine"
CGROUPS = Path("/sys/fs/cgroup")
PROCESSES = Path("/proc")


def own_identity() -> Identity:
    """Return a uid that no other container and nobody else on the host has. Raises Unavailable unless run as root."""
    identity = new_identity()
    if not FIRST_UID <= identity.uid <= LAST_UID:
        raise Unavailable("containers need the rights of root for their user namespaces", "start the engine as root")
    return identity


def cgroup_parent(tree: Tree, root: Path) -> str:
    """Return the parent of the cgroups of a daemon's containers; `root` is the daemon's folder.

    It is below the daemon's own memory group with v1, below the root with v2.
    """
    own, name = tree.parents["memory"], f"{GROUP}-{sha256(os.fsencode(root)).hexdigest()[:12]}"
    return f"/{own.relative_to(CGROUPS / 'memory') / name}" if tree.driver == "v1" else f"/{name}"


def groups_of(pid: int, tree: Tree, parent: str) -> dict[str, str]:
    """Return a container's cgroups, found by its first process: controller or hierarchy name -> folder.

    `parent` is that of all containers' groups. These groups enforce the limits, and everything in them is killed at the
    end, so each must be the container's own. Raises BoxFailed if one is not.
    """
    lines = [line.split(":", 2) for line in (PROCESSES / str(pid) / "cgroup").read_text().splitlines()]
    unified = next((path for number, _, path in lines if number == "0"), "/")
    if tree.driver == "v2":
        named = dict.fromkeys(("memory", "pids", "cpu"), unified)
        folders = dict.fromkeys(named, str(CGROUPS / unified.lstrip("/")))
    else:
        named = {name.removeprefix("name="): path for _, names, path in lines for name in names.split(",") if name}
        folders = {name: str(CGROUPS / name / path.lstrip("/")) for name, path in named.items()}
    for name, path in named.items():
        if not path.startswith(f"{parent}/libpod-"):
            raise BoxFailed(f"the engine's runtime gives containers no {name} group of their own", f"it is in {path}")
    return folders


def usable_tree() -> Tree:
    tree = find_tree()
    if not {"memory", "pids", "cpu"} <= tree.parents.keys():
        raise Unavailable("the engine may make no cgroups, so that no limit would hold", "start it as root")
    return tree


def remove_groups(tree: Tree, parent: str) -> None:
    """Kill what runs in the groups below a daemon's own in every hierarchy, and remove them.

    A daemon that was killed while the engine started a container leaves processes that the engine does not know.
    """
    for mount in CGROUPS.iterdir() if tree.driver == "v1" else [CGROUPS]:
        own = mount / parent.lstrip("/")
        for group in (*own.glob("*/"), own):
            remove_cgroup(group)
