"""The only form of container that the daemon makes, as a request for podman's API (libpod's SpecGenerator).

No network, capabilities, new privileges or devices other than harmless ones, and one user: root inside, the container's
own uid outside. It starts the box's agent and nothing else.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..cgroups import CPU_PERIOD
from ..identity import Identity
from ..options import MASKED_DIRECTORIES, MASKED_FILES
from .files import Files
from .wire import Order

IN_BOX = "/run/envhub"
READABLE = ["ro", "rbind", "nosuid", "nodev"]
WRITABLE = ["rw", "rbind", "nosuid", "nodev"]
OOM_SCORE = 500  # as in launcher.py: if the host runs out of memory, boxes go before the worker
BEYOND_PIDS = 8  # as in cgroups.limit_files: the agent and the forwarder
LABEL = "envhub.box"


def bind(source: str | Path, target: str, writable: bool = False) -> dict[str, Any]:
    return {"type": "bind", "source": str(source), "destination": target, "options": WRITABLE if writable else READABLE}


def system() -> list[dict[str, Any]]:
    """Return the mounts of /proc, /dev and /dev/pts.

    /proc (for oom_score_adj) and /dev are read-only once the runtime has filled them.
    """
    return [
        {
            "type": "proc",
            "source": "proc",
            "destination": "/proc",
            "options": ["nosuid", "noexec", "nodev", "ro"],
        },
        {
            "type": "tmpfs",
            "source": "tmpfs",
            "destination": "/dev",
            "options": ["nosuid", "noexec", "mode=755", "size=64k", "ro"],
        },
        {
            "type": "devpts",
            "source": "devpts",
            "destination": "/dev/pts",
            "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"],
        },
    ]


def limits(order: Order) -> dict[str, Any]:
    quota = int(order.cpus * CPU_PERIOD)
    return {
        "memory": {"limit": order.memory_bytes, "swap": order.memory_bytes},
        "pids": {"limit": order.pids + BEYOND_PIDS},
        "cpu": {"quota": quota, "period": CPU_PERIOD},
    }


def specification(
    order: Order,
    files: Files,
    identity: Identity,
    command: Sequence[str],
    *,
    seccomp: Path,
    cgroup_parent: str,
) -> dict[str, Any]:
    """Return the container's specification."""
    one = [{"container_id": 0, "host_id": identity.uid, "size": 1}]
    return {
        "name": order.id,
        "labels": {LABEL: order.id},
        "rootfs": str(files.root),
        "command": list(command),
        "work_dir": "/",
        "hostname": order.hostname,
        "env": {"PATH": "/usr/bin:/bin"},
        "unsetenvall": True,
        "httpproxy": False,
        "user": "0:0",
        "userns": {"nsmode": "private"},
        "idmappings": {"HostUIDMapping": False, "HostGIDMapping": False, "UIDMap": one, "GIDMap": one},
        "netns": {"nsmode": "none"},
        "pidns": {"nsmode": "private"},
        "ipcns": {"nsmode": "private"},
        "utsns": {"nsmode": "private"},
        "cgroupns": {"nsmode": "private"},
        "cap_drop": ["ALL"],
        "no_new_privileges": True,
        "seccomp_profile_path": str(seccomp),
        "mask": ["/sys", *MASKED_FILES, *MASKED_DIRECTORIES],
        "mounts": [
            *system(),
            *(bind(source, target, writable) for source, target, writable in files.mounts),
            bind(files.channel, f"{IN_BOX}/channel"),
        ],
        "manage_password": False,
        "use_image_hosts": True,
        "use_image_resolv_conf": True,
        "image_volume_mode": "ignore",
        "log_configuration": {"driver": "none"},
        "systemd": "false",
        "cgroup_parent": cgroup_parent,
        "resource_limits": limits(order),
        "oom_score_adj": OOM_SCORE,
        "r_limits": [
            {"type": "nofile", "soft": order.open_files, "hard": order.open_files},
            {"type": "nproc", "soft": order.pids, "hard": order.pids},
            {"type": "core", "soft": 0, "hard": 0},
            {"type": "msgqueue", "soft": 0, "hard": 0},
        ],
    }
