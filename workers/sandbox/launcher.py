"""Becomes one box: started for each by the bwrap backend (standard library, -I -S), reads its orders as JSON on stdin.

Enters the cgroups, makes a private mount namespace, mounts the writable tmpfs with their limits, opens what is bound in
while it still may (a home directory is 0700), drops to the box's own uid, and executes bwrap with an empty environment.
"""

import ctypes
import json
import os
import signal
import stat
import sys
from collections.abc import Mapping, Sequence
from typing import Any

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 4096, 16384, 1 << 18
PR_SET_PDEATHSIG, PR_SET_DUMPABLE = 1, 4
STAGE = "/tmp"  # noqa: S108 - exists everywhere; a tmpfs of our own covers it in this mount namespace only
libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    arguments = [text.encode() if text else None for text in (source, target, kind, options)]
    check(libc.mount(arguments[0], arguments[1], arguments[2], flags, arguments[3]), f"mount {target}")


def memory_file(data: bytes) -> int:
    """A descriptor to read `data` from, which bwrap inherits."""
    descriptor = os.memfd_create("envhub", 0)  # flags 0: not closed on exec
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def enter_cgroups(paths: Sequence[str]) -> None:
    for path in paths:
        with open(path, "w") as file:
            file.write("0")


def own_namespace(orders: Mapping[str, Any]) -> None:
    if orders["mode"] == "root":
        check(libc.unshare(CLONE_NEWNS), "unshare")
    else:
        uid, gid = os.getuid(), os.getgid()
        check(libc.unshare(CLONE_NEWUSER | CLONE_NEWNS), "unshare user namespace")
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    mount("", "/", "", MS_REC | MS_PRIVATE)


def stage(orders: Mapping[str, Any]) -> None:
    """Puts everything that bwrap binds under STAGE: b0, b1, ... and rw/{work,tmp,shm}."""
    sources = [os.open(path, os.O_PATH) for path in orders["binds"]]
    mount("tmpfs", STAGE, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=0755")
    for index, source in enumerate(sources):
        target = f"{STAGE}/b{index}"
        if stat.S_ISDIR(os.fstat(source).st_mode):
            os.mkdir(target)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
        mount(f"/proc/self/fd/{source}", target, "", MS_BIND | MS_REC)
        os.close(source)
    os.mkdir(f"{STAGE}/rw")
    budget = f"size={orders['disk_bytes']},nr_inodes={orders['files']},mode=0755"
    mount("tmpfs", f"{STAGE}/rw", "tmpfs", MS_NOSUID | MS_NODEV, budget)
    for name, mode in (("box", 0o700), ("tmp", 0o1777), ("shm", 0o1777)):
        os.mkdir(f"{STAGE}/rw/{name}")
        os.chown(f"{STAGE}/rw/{name}", orders["uid"], orders["gid"])
        os.chmod(f"{STAGE}/rw/{name}", mode)


def drop(orders: Mapping[str, Any]) -> None:
    if orders["mode"] == "root":
        os.setgroups([])
        os.setresgid(orders["gid"], orders["gid"], orders["gid"])
        os.setresuid(orders["uid"], orders["uid"], orders["uid"])
    if 0 in (*os.getresuid(), *os.getresgid()):
        raise OSError(0, "a box never runs as uid 0")
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != orders["parent"]:
        os._exit(1)


def main() -> None:
    os.umask(0o022)
    orders = json.load(sys.stdin)
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("500")  # when the machine's memory ends, boxes go before the worker; /proc is read-only inside
    enter_cgroups(orders["cgroups"])
    own_namespace(orders)
    stage(orders)
    options = []
    for option in orders["options"]:
        if isinstance(option, dict):
            data = bytes.fromhex(option["hex"]) if "hex" in option else option["text"].encode()
            option = str(memory_file(data))
        options.append(option)
    arguments = memory_file(b"".join(option.encode() + b"\0" for option in options))
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    os.chdir("/")
    drop(orders)
    os.execve(orders["bwrap"], ["bwrap", "--args", str(arguments), "--", *orders["command"]], {})  # noqa: S606


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(f"{error.strerror} {error.filename or ''}".strip())
