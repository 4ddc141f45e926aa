"""The arguments of bwrap for one box, in the order in which bwrap applies them.

Data is passed by descriptor, never in argv.
"""

import os
from collections.abc import Collection, Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TypedDict

STAGE = "/tmp"  # noqa: S108 - where launcher.py puts the binds
SYSTEM_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SYSTEM_FILES = (
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/mime.types", "/etc/localtime", "/etc/timezone",
    "/etc/fonts", "/etc/pki/tls/certs",
)  # fmt: skip
MASKED_FILES = (
    "/proc/kcore", "/proc/keys", "/proc/key-users", "/proc/kallsyms", "/proc/timer_list", "/proc/sched_debug",
    "/proc/kmsg", "/proc/latency_stats", "/proc/interrupts", "/proc/vmallocinfo", "/proc/slabinfo",
    "/proc/kpagecount", "/proc/kpageflags", "/proc/kpagecgroup", "/proc/modules", "/proc/sysrq-trigger",
    "/proc/config.gz", "/proc/cmdline",
)  # fmt: skip
MASKED_DIRECTORIES = ("/proc/acpi", "/proc/scsi", "/proc/fs", "/proc/driver")
READ_ONLY = ("/proc/sys", "/proc/irq", "/proc/bus")
NAMESPACES = (
    "--unshare-user",
    "--disable-userns",
    "--unshare-ipc",
    "--unshare-pid",
    "--unshare-uts",
    "--unshare-cgroup-try",
)


class Data(TypedDict, total=False):
    """Bytes that the launcher turns into a file descriptor."""

    text: str
    hex: str


Option = str | Data


class Protection(StrEnum):
    """A protection that the doctor's negative control can leave out; nothing else ever leaves one out."""

    SECCOMP = "seccomp"
    NETWORK = "network namespace"
    READ_ONLY = "read-only binds"
    VIEWS = "views of its own"
    PROC = "masked /proc"


def file(path: str, text: str) -> list[Option]:
    return ["--perms", "0444", "--ro-bind-data", {"text": text}, path]


def system_folders() -> dict[str, list[str]]:
    """Map the host's folders that boxes see to the paths that they see of each."""
    programs = ["/usr", *(path for path in SYSTEM_LINKS if os.path.isdir(path) and not os.path.islink(path))]
    return {**{path: [path] for path in programs}, "/etc": [path for path in SYSTEM_FILES if os.path.exists(path)]}


def system(folders: Iterable[str]) -> list[Option]:
    """Bind the host's programs and libraries, and only those files of /etc that they need.

    `folders` are those that the launcher has put below its stage.
    """

    def staged(path: str) -> str:
        real = os.path.realpath(path)
        return f"{STAGE}/system{real}" if any(real == one or real.startswith(f"{one}/") for one in folders) else real

    options: list[Option] = []
    for paths in system_folders().values():
        for path in paths:
            options += ["--ro-bind", staged(path), path]
    for link in SYSTEM_LINKS:
        if os.path.islink(link):
            options += ["--symlink", os.readlink(link), link]
    return options


def identity(hostname: str) -> list[Option]:
    return [
        *file("/etc/passwd", "root:x:0:0::/root:/bin/sh\nsandbox:x:1000:1000::/box:/bin/sh\n"),
        *file("/etc/group", "root:x:0:\nsandbox:x:1000:\n"),
        *file("/etc/hosts", f"127.0.0.1 localhost {hostname}\n::1 localhost\n"),
        *file("/etc/resolv.conf", ""),
        *file("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
    ]


def proc(masked: bool) -> list[Option]:
    options: list[Option] = ["--proc", "/proc"]
    for path in READ_ONLY:
        if masked and os.path.exists(path):
            options += ["--ro-bind", path, path]
    for path in MASKED_FILES:
        if masked and os.path.exists(path):
            options += ["--ro-bind", "/dev/null", path]
    for path in MASKED_DIRECTORIES:
        if masked and os.path.isdir(path):
            options += ["--perms", "0555", "--tmpfs", path, "--remount-ro", path]
    if masked:
        options += ["--remount-ro", "/proc"]  # for oom_score_adj and the like
    return options


def writable() -> list[Option]:
    return [
        "--bind", f"{STAGE}/rw/box", "/box",
        "--bind", f"{STAGE}/rw/tmp", "/tmp",  # noqa: S108
    ]  # fmt: skip


def devices() -> list[Option]:
    return [
        "--dev", "/dev",
        "--bind", f"{STAGE}/rw/shm", "/dev/shm",  # noqa: S108
        "--remount-ro", "/dev",
    ]  # fmt: skip


def image(hostname: str) -> list[Option]:
    """Use an image as the whole file system, with /etc/hosts and /etc/resolv.conf of the box, which it may change."""
    return [
        "--bind", f"{STAGE}/broot", "/",
        "--perms", "0644", "--file", {"text": f"127.0.0.1 localhost {hostname}\n::1 localhost\n"}, "/etc/hosts",
        "--perms", "0644", "--file", {"text": ""}, "/etc/resolv.conf",
    ]  # fmt: skip


def in_box_programs(directory: Path) -> list[Option]:
    return [
        *file("/run/envhub/agent.py", (directory / "agent.py").read_text()),
        *file("/run/envhub/forwarder.py", (directory / "forwarder.py").read_text()),
    ]


def bwrap_options(
    *,
    targets: Sequence[tuple[str, bool]],
    hostname: str,
    seccomp: bytes,
    system_views: Collection[str] = (),
    on_image: bool = False,
    without: Iterable[Protection] = (),
) -> list[Option]:
    """Return bwrap's arguments. `targets` are the box paths of the launcher's binds b0, b1, ..., each with whether it
    has a layer; `system_views` are the host's folders of which the launcher has made views.

    On an image the box's only user is its root; on the host that is the box's own unprivileged user.
    """
    missing = frozenset(without)
    options: list[Option] = [*NAMESPACES]
    if Protection.NETWORK not in missing:
        options.append("--unshare-net")
    uid = "0" if on_image else "1000"
    options += ["--uid", uid, "--gid", uid, "--cap-drop", "ALL", "--die-with-parent", "--new-session"]
    options += ["--hostname", hostname]
    options += image(hostname) if on_image else [*system(system_views), *identity(hostname)]
    options += proc(Protection.PROC not in missing)
    options += devices() if on_image else [*writable(), *devices()]
    for index, (target, layer) in enumerate(targets):
        writable_bind = layer or Protection.READ_ONLY in missing
        options += ["--bind" if writable_bind else "--ro-bind", f"{STAGE}/b{index}", target]
    options += in_box_programs(Path(__file__).parent)
    options += ["--chdir", "/"] if on_image else ["--chdir", "/box", "--remount-ro", "/"]
    if Protection.SECCOMP not in missing:
        options += ["--seccomp", {"hex": seccomp.hex()}]
    return options
