"""Become one box. The bwrap backend starts this for each box (standard library, -I -S), with orders as JSON on stdin.

It enters the cgroups, makes a private mount namespace, mounts the size-limited writable tmpfs, opens the bound files
while it still may (a home directory is 0700), lays writable layers over the binds that ask for one and views of the
box's own over the directories that other boxes see too, drops to the box's own uid, and executes bwrap with an empty
environment. With "prove" in its orders it only writes into the first layer, prints what could have no view, and ends.
"""

import ctypes
import json
import os
import signal
import stat
import struct
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 4096, 16384, 1 << 18
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442  # system calls; their numbers are the same on all architectures
OPEN_TREE_CLONE, MOVE_MOUNT_F_EMPTY_PATH, MOUNT_ATTR_RDONLY, MOUNT_ATTR_IDMAP = 1, 4, 0x1, 0x100000
AT_FDCWD, AT_EMPTY_PATH = -100, 0x1000
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


def call(number: int, *arguments: "int | str | bytes") -> int:
    """Make a system call that the C library may be too old to know."""
    fixed = [
        ctypes.c_long(one) if isinstance(one, int) else one.encode() if isinstance(one, str) else one
        for one in arguments
    ]
    result: int = libc.syscall(ctypes.c_long(number), *fixed)
    check(min(result, 0), f"system call {number}")
    return result


def memory_file(data: bytes) -> int:
    """Return a descriptor to read `data` from; bwrap inherits it."""
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


def user_namespace_for(orders: Mapping[str, Any], owner: "tuple[int, int]" = (0, 0)) -> int:
    """Return a descriptor of a user namespace that maps the owner's files to the box's uid and gid.

    The namespace has no process.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        if libc.unshare(CLONE_NEWUSER) == 0:
            os.write(writing, b"1")
            signal.pause()
        os._exit(1)
    os.close(writing)
    try:
        if not os.read(reading, 1):
            raise OSError(0, "unshare user namespace")
        for name, theirs, own in (("uid_map", owner[0], orders["uid"]), ("gid_map", owner[1], orders["gid"])):
            with open(f"/proc/{pid}/{name}", "w") as file:
                file.write(f"{theirs} {own} 1")
        return os.open(f"/proc/{pid}/ns/user", os.O_RDONLY)
    finally:
        os.close(reading)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def mount_idmapped(source: int, target: str, namespace: int) -> None:
    """Mount a directory read-only, with owners mapped by `namespace`, so that the box may copy up files it changes."""
    tree = call(OPEN_TREE, source, "", OPEN_TREE_CLONE | AT_EMPTY_PATH)
    attributes = struct.pack("=4Q", MOUNT_ATTR_RDONLY | MOUNT_ATTR_IDMAP, 0, 0, namespace)
    call(MOUNT_SETATTR, tree, "", AT_EMPTY_PATH, attributes, len(attributes))
    call(MOVE_MOUNT, tree, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH)
    os.close(tree)


def mount_layer(
    place: str, index: "int | str", source: int, namespace: "int | None", orders: Mapping[str, Any]
) -> None:
    """Mount an overlay at b<index>: the box writes to its tmpfs, and the directory beneath (l<index>) never changes."""
    lower, target, own = f"{place}/l{index}", f"{place}/b{index}", f"{place}/rw/l{index}"
    for path in (lower, target, own, f"{own}/up", f"{own}/work"):
        os.mkdir(path)
    os.chown(f"{own}/up", orders["uid"], orders["gid"])
    if namespace is None:
        mount(f"/proc/self/fd/{source}", lower, "", MS_BIND)
    else:
        mount_idmapped(source, lower, namespace)
    options = f"lowerdir={lower},upperdir={own}/up,workdir={own}/work,index=off,metacopy=off,redirect_dir=nofollow"
    options += ",userxattr" if namespace is None else ""
    mount("overlay", target, "overlay", MS_NOSUID | MS_NODEV, options)


def bind(target: str, source: int) -> None:
    if stat.S_ISDIR(os.fstat(source).st_mode):
        os.makedirs(target)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    mount(f"/proc/self/fd/{source}", target, "", MS_BIND | MS_REC)


def mount_points() -> "list[str]":
    with open("/proc/self/mountinfo") as file:
        return [line.split()[4] for line in file]


def view(place: str, target: str, source: int, mounts: "Collection[str]", needed: "Collection[str]" = ()) -> bool:
    """Show a directory read-only through an overlay of the box's own, and return whether that was possible.

    Watches (inotify) and locks belong to an inode. In a plain bind that is the shared one: boxes would see what others
    open, and could block each other. A directory with other mounts in it (in the paths that are needed of it), or on a
    file system that overlayfs does not accept, is bound as it is.
    """
    path = os.readlink(f"/proc/self/fd/{source}")
    if any(f"{point}/".startswith(f"{one}/") and point != path for point in mounts for one in needed or [path]):
        bind(target, source)
        return False
    os.makedirs(f"{place}/none", exist_ok=True)  # overlayfs wants two directories if it may not write
    options = f"lowerdir=/proc/self/fd/{source}:{place}/none"
    os.makedirs(target)
    try:
        mount("overlay", target, "overlay", MS_RDONLY | MS_NOSUID | MS_NODEV, options)
    except OSError:
        os.rmdir(target)
        bind(target, source)
        return False
    return True


def writable(place: str, orders: Mapping[str, Any]) -> None:
    """Mount rw/{box,tmp,shm}: one tmpfs, with the box's limits, for everything that the box writes."""
    mount("tmpfs", place, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=0755")
    os.mkdir(f"{place}/rw")
    budget = f"size={orders['disk_bytes']},nr_inodes={orders['files']},mode=0755"
    mount("tmpfs", f"{place}/rw", "tmpfs", MS_NOSUID | MS_NODEV, budget)
    for name, mode in (("box", 0o700), ("tmp", 0o1777), ("shm", 0o1777)):
        os.mkdir(f"{place}/rw/{name}")
        os.chown(f"{place}/rw/{name}", orders["uid"], orders["gid"])
        os.chmod(f"{place}/rw/{name}", mode)


def stage(orders: Mapping[str, Any]) -> "list[str]":
    """Put everything that bwrap binds below STAGE: b0, b1, ..., system/ and rw/{box,tmp,shm}.

    Return the directories that should have had a view and are bound as they are.
    """
    mounts = mount_points() if orders["views"] or orders["system"] else []
    system = {path: os.open(path, os.O_PATH) for path in orders["system"]}
    sources = [os.open(path, os.O_PATH) for path in orders["binds"]]
    root = os.open(orders["root"], os.O_PATH | os.O_DIRECTORY) if orders["root"] else None
    writable(STAGE, orders)
    layered = orders["layers"] or root is not None
    namespace = user_namespace_for(orders) if layered and orders["mode"] == "root" else None
    if root is not None:
        mount_layer(STAGE, "root", root, namespace, orders)
        os.close(root)
        if orders["changes"] >= 0:
            give_changes(orders["changes"])
    shared = []
    for path, source in system.items():
        if not view(STAGE, f"{STAGE}/system{path}", source, mounts, orders["system"][path]):
            shared.append(path)
    for index, source in enumerate(sources):
        target = f"{STAGE}/b{index}"
        if index in orders["layers"]:
            mount_layer(STAGE, index, source, namespace, orders)
        elif index not in orders["views"]:
            bind(target, source)
        elif not view(STAGE, target, source, mounts):
            shared.append(orders["binds"][index])
    for descriptor in (*system.values(), *sources, *([namespace] if namespace is not None else [])):
        os.close(descriptor)
    return shared


def give_changes(place: int) -> None:
    """Send a descriptor of the directory with what the box writes over its image."""
    import socket  # noqa: PLC0415  # saves other boxes some milliseconds

    changes = os.open(f"{STAGE}/rw/lroot/up", os.O_RDONLY | os.O_DIRECTORY)
    with socket.socket(fileno=place) as line:
        socket.send_fds(line, [b"1"], [changes])
    os.close(changes)


def prove() -> None:
    """Raise OSError unless the first layer can be written to and leaves the directory beneath unchanged."""
    with open(f"{STAGE}/b0/.envhub-proof", "w") as file:
        file.write("proof")
    if os.path.exists(f"{STAGE}/l0/.envhub-proof"):
        raise OSError(0, "a layer writes through to what lies beneath it")


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
        file.write("500")  # if the host runs out of memory, boxes go before the worker; /proc is read-only inside
    enter_cgroups(orders["cgroups"])
    own_namespace(orders)
    shared = stage(orders)
    if orders.get("prove"):
        drop(orders)
        prove()
        sys.stdout.write("\n".join(shared))
        return
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
