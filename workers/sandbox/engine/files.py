"""Lay out a container's files in the daemon's own mount namespace, from which containers start.

That is the image beneath a layer, the binds, and one tmpfs with the box's limits for all writes; the rest is read-only.
The worker's files are mapped (id-mapped mounts) to the box's user, so neither the image nor a folder of sockets needs
to be open to all users of the host.
"""

import ctypes
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import launcher
from ..errors import BoxFailed
from ..identity import Identity
from ..interface import SOCKETS
from .wire import Mount, Order

CHANNEL = "channel"
MNT_DETACH = 2
MS_SLAVE = 1 << 19


class Refused(BoxFailed):
    """The daemon's operator does not allow what the order asks for."""


@dataclass(frozen=True)
class Files:
    """The host paths of a container's files; `mounts` are (source, target, writable)."""

    root: Path
    channel: Path  # a folder that belongs to the box, for the agent's connection
    mounts: tuple[tuple[str, str, bool], ...]


def own_namespace() -> None:
    """Enter a private mount namespace: mounts made here stay here and end with its last process."""
    launcher.check(launcher.libc.unshare(launcher.CLONE_NEWNS), "unshare")
    launcher.mount("", "/", "", launcher.MS_REC | MS_SLAVE)


@contextmanager
def opened(path: str, allowed: Sequence[Path]) -> Iterator[int]:
    """Open a path that a worker named and yield the descriptor. Raises Refused unless it is below an allowed folder.

    The check comes after opening, so swapping the path for a link in between does not help an attacker.
    """
    try:
        found = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError as error:
        raise BoxFailed(f"{path}: {error.strerror}") from error
    try:
        place = Path(os.readlink(f"/proc/self/fd/{found}"))
        if not any(place.is_relative_to(one) for one in allowed):
            raise Refused(f"{path} is outside of the folders that the engine may show", "start it with --show FOLDER")
        yield found
    finally:
        os.close(found)


def lay_out(
    stage: Path, order: Order, identity: Identity, allowed: Sequence[Path], worker: int, programs: Mapping[str, Path]
) -> Files:
    """Mount everything below `stage` for a worker with that uid. Raises BoxFailed.

    `programs` maps targets to folders of the daemon, which all containers see. The caller must call `take_away` in any
    case.
    """
    orders = {"uid": identity.uid, "gid": identity.gid, "disk_bytes": order.disk_bytes, "files": order.files}
    place = str(stage)
    try:
        launcher.writable(place, orders)
        channel = stage / CHANNEL
        channel.mkdir(mode=0o700)
        os.chown(channel, identity.uid, identity.gid)
        mounts = [(f"{place}/rw/shm", "/dev/shm", True), *_names(stage, order.hostname, identity)]  # noqa: S108
        with ExitStack() as stack:
            for index, (target, folder) in enumerate(programs.items()):
                source = os.open(folder, os.O_PATH | os.O_CLOEXEC)
                stack.callback(os.close, source)
                launcher.view(place, f"{place}/p{index}", source, ())
                mounts.append((f"{place}/p{index}", target, False))
            namespaces = MappedNamespaces(orders, worker, stack)
            _lay(place, "root", stack.enter_context(opened(order.root, allowed)), namespaces, orders)
            for index, bind in enumerate(order.mounts):
                source = stack.enter_context(opened(bind.source, allowed))
                if bind.layer:
                    _lay(place, index, source, namespaces, orders)
                else:
                    _refuse_unreadable(bind, source)
                    _show(place, f"{place}/b{index}", source)
                mounts.append((f"{place}/b{index}", bind.target, bind.layer))
            if order.sockets is not None:
                source = stack.enter_context(opened(order.sockets, allowed))
                (stage / "sockets").mkdir()
                launcher.mount_idmapped(source, f"{place}/sockets", namespaces.of(source))
                mounts.append((f"{place}/sockets", SOCKETS, False))
    except OSError as error:
        raise BoxFailed("the files of a container could not be laid out", str(error)) from error
    return Files(stage / "broot", channel, tuple(mounts))


class MappedNamespaces:
    """User namespaces that map the worker's files to the box's user: one for each of the worker's groups.

    Most boxes need only one.
    """

    def __init__(self, orders: dict[str, Any], worker: int, stack: ExitStack) -> None:
        self._orders = orders
        self._worker = worker
        self._stack = stack
        self._made: dict[tuple[int, int], int] = {}

    def of(self, source: int) -> int:
        """Return the namespace for a file.

        Raises Refused for another user's file: the box could read what its worker may not.
        """
        facts = os.fstat(source)
        if facts.st_uid != self._worker:
            path = os.readlink(f"/proc/self/fd/{source}")
            raise Refused(f"{path} belongs to user {facts.st_uid}, the worker is user {self._worker}")
        owner = (facts.st_uid, facts.st_gid)
        if owner not in self._made:
            self._made[owner] = launcher.user_namespace_for(self._orders, owner)
            self._stack.callback(os.close, self._made[owner])
        return self._made[owner]


def _lay(place: str, index: int | str, source: int, namespaces: MappedNamespaces, orders: dict[str, Any]) -> None:
    launcher.mount_layer(place, index, source, namespaces.of(source), orders)


def _show(place: str, target: str, source: int) -> None:
    if stat.S_ISDIR(os.fstat(source).st_mode):
        launcher.view(place, target, source, launcher.mount_points())
    else:
        launcher.bind(target, source)


def _refuse_unreadable(bind: Mount, source: int) -> None:
    mode = os.fstat(source).st_mode
    wanted = 0o5 if stat.S_ISDIR(mode) else 0o4
    if mode & wanted != wanted:
        raise BoxFailed(f"{bind.source} cannot be read in a box", f"chmod o+rx {bind.source}")


def _names(stage: Path, hostname: str, identity: Identity) -> list[tuple[str, str, bool]]:
    """Write the name files (/etc/hosts and so on) that a container gets over its image and may change.

    The engine would bind its own otherwise.
    """
    hosts = f"127.0.0.1 localhost {hostname}\n::1 localhost\n"
    texts = {"/etc/hosts": hosts, "/etc/resolv.conf": "", "/etc/hostname": f"{hostname}\n", "/run/.containerenv": ""}
    found = []
    for target, text in texts.items():
        path = stage / "rw" / Path(target).name
        path.write_text(text)
        os.chown(path, identity.uid, identity.gid)
        found.append((str(path), target, True))
    return found


def take_away(stage: Path) -> None:
    """Unmount everything below `stage`; what the box wrote is lost with it. Safe to run twice."""
    for line in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
        target = line.split()[4]
        if target == str(stage) or target.startswith(f"{stage}/"):
            launcher.libc.umount2(ctypes.c_char_p(target.encode()), MNT_DETACH)
