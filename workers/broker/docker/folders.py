"""Copies the client's folders and files that its containers mount: `docker run -v`, bind mounts, named volumes.

A sandbox shares no files with the client's box. So mounted folders are copied into the container before a command
starts there, and what has changed is copied back before the client hears that the command has ended. Containers run
code that a model wrote: each file that they return is written separately, through no link and never outside its folder.
"""

from __future__ import annotations

import asyncio
import posixpath
import re
import secrets
import signal
import tarfile
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import IO

from envhub.packaging.archives.tar_headers import BoundedHeader
from envhub.protocol.base import JsonObject

from workers.broker.docker.output import Output
from workers.broker.home import Home
from workers.broker.interface import Held, Process
from workers.broker.refusals import Refusal
from workers.sandbox import SandboxError

MIB = 1024 * 1024
MOST_FOLDERS = 32
MOST_BYTES, MOST_FILES = 256 * MIB, 10_000  # that one command can bring back
MOST_ENTRIES = 50_000  # with folders, which archives hold whether they have changed or not
SLACK_S = 0.02  # the times of files lag behind the clock by up to a tick of the kernel
COPY_S = 600.0
LISTED = 8 * MIB  # bytes of a list of changes
WORDS = 4096  # bytes that are kept of what a command says when it fails
CHANGED_MEANWHILE = 1  # the exit status of a tar whose files changed while it read them
VOLUMES = "/tmp/.docker-volumes"  # noqa: S108 - of the client's box, which nobody else has
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}")
# In the client's box, whose tar is Debian's. A folder that is not there is made, as engines do.
KIND = 'if [ -d "$0" ]; then echo folder; elif [ -e "$0" ]; then echo file; else mkdir -p "$0" && echo folder; fi'
UNPACK = 'mkdir -p "$0" && exec tar -C "$0" -xof -'
# In the container: tars that know no date, such as busybox's, give everything.
CHANGED = (
    'if tar --help 2>&1 | grep -q -e --newer; then exec tar -C "$0" -N "@$1" -cf - .; fi; exec tar -C "$0" -cf - .'
)


Changes = dict[tuple["Folder", str], str]  # of a file, by its name in a folder: when


class CopyFailed(SandboxError):
    """A folder could not be copied between a client and its container."""

    code = "folder_not_copied"


@dataclass(frozen=True)
class Folder:
    """A path of the client's box and where a container sees it."""

    source: str
    target: str
    read_only: bool = False


class Folders:
    """The mounted folders of one container. Copies for its commands take turns."""

    def __init__(self, folders: Sequence[Folder], home: Home) -> None:
        self._folders = folders
        self._home = home
        self._files: dict[Folder, bytes] = {}  # which of them are files, and what both sides have in them
        self._given = 0.0  # until when the container has the client's changes
        self._taken = 0.0  # until when the client has the container's
        self._known: Changes = {}  # changes of the client's files that the container has, or has made
        self._copying = asyncio.Lock()

    def told(self) -> list[JsonObject]:
        """As `docker inspect` has them."""
        return [
            {
                "Type": "bind",
                "Source": folder.source,
                "Destination": folder.target,
                "Mode": "ro" if folder.read_only else "",
                "RW": not folder.read_only,
            }
            for folder in self._folders
        ]

    async def copy_in(self, held: Held) -> None:
        """Give the container what its client has changed since the last copy; the first time everything. Raises
        SandboxError."""
        if not self._folders:
            return
        async with self._copying:
            now = time.time() - SLACK_S
            if not self._given:
                for folder in self._folders:
                    await self._give_all(held, folder)
                self._given, self._taken = now, await settled()
                return
            changed: Changes = {}
            for folder in self._writable():
                changed |= await self._changed(folder, self._given)
            wanted = {key for key, at in changed.items() if self._known.get(key) != at}
            if wanted:
                await self._take_all(held, without=wanted)
                for folder in self._writable():
                    await self._give(held, folder, sorted(name for place, name in wanted if place == folder))
                self._taken = await settled()
            known = {key: at for key, at in self._known.items() if float(at) >= now}
            self._given, self._known = now, known | {key: changed[key] for key in wanted}

    async def copy_back(self, held: Held) -> str:
        """Give the client what its container has changed since. Return what went wrong, or ""."""
        if not self._writable() or held.state.final:
            return ""
        async with self._copying:
            try:
                await self._take_all(held)
            except SandboxError as error:
                return f"the container's changes were not copied back: {error}"
            return ""

    def _writable(self) -> list[Folder]:
        return [folder for folder in self._folders if not folder.read_only]

    async def _give_all(self, held: Held, folder: Folder) -> None:
        done = await self._home.get().exec(("sh", "-c", KIND, folder.source), timeout=COPY_S)
        if done.exit_code:
            raise CopyFailed(f"{folder.source} cannot be made: {_words(done.stderr)}")
        if done.stdout.strip() == b"file":
            self._files[folder] = b""
            await self._give(held, folder, ("",))
        else:
            await self._pack(held, folder, ("tar", "-C", folder.source, "-cf", "-", "."))

    async def _give(self, held: Held, folder: Folder, names: Sequence[str]) -> None:
        if names and folder in self._files:
            content = self._files[folder] = await self._home.get().get(folder.source, MOST_BYTES)
            await held.put(folder.target, content, mode=0o755)
        elif names:
            pack = ("tar", "-C", folder.source, "--no-recursion", "--null", "-T", "-", "-cf", "-")
            await self._pack(held, folder, pack, "\0".join(names).encode(errors="surrogateescape"))

    async def _pack(self, held: Held, folder: Folder, pack: Sequence[str], names: bytes = b"") -> None:
        """Unpack in the container what the command `pack` packs in the client's box."""
        errors = Output(keep=WORDS)
        unpack = ("sh", "-c", UNPACK, folder.target)
        receiver = await held.start(unpack, on_output=errors.feed, stdin=True, cwd="/", recorded=False)
        try:
            async for data in written(partial(self._home.start, pack, stdin=names)):
                await receiver.write(data)
        finally:
            await receiver.close_input()
        if (await receiver.wait(COPY_S)).exit_code:
            said = b"".join(data for _, data in errors.kept)
            raise CopyFailed(f"{folder.source} cannot be copied to {folder.target}: {_words(said)}")

    async def _changed(self, folder: Folder, since: float) -> Changes:
        """Return what the client has changed in a folder since then, and when. A single file has the name ""."""
        depth = ("-maxdepth", "0") if folder in self._files else ("-mindepth", "1")
        find = ("find", folder.source, *depth, "-newerct", f"@{since:.3f}", "-printf", "%P\\0%C@\\0")
        done = await self._home.get().exec(find, timeout=COPY_S, output_limit=LISTED)
        if done.exit_code or done.truncated:
            raise CopyFailed(f"{folder.source} cannot be listed: {_words(done.stderr)}")
        parts = iter(done.stdout.decode(errors="surrogateescape").split("\0"))
        return {(folder, name): at for name, at in zip(parts, parts, strict=False)}

    async def _take_all(self, held: Held, without: Collection[tuple[Folder, str]] = ()) -> None:
        """Write what has changed in the container, except `without`: what the client has changed as well."""
        now = await settled()
        began = time.time() - SLACK_S
        for folder in self._writable():
            if folder in self._files:
                names = await self._take_file(held, folder, without)
            else:
                names = await self._take(held, folder, self._taken, without)
            if names:
                changed = await self._changed(folder, began)
                self._known.update({key: at for key, at in changed.items() if key[1] in names})
        self._taken = now

    async def _take_file(self, held: Held, folder: Folder, without: Collection[tuple[Folder, str]]) -> set[str]:
        if (folder, "") in without or (content := await held.get(folder.target, MOST_BYTES)) == self._files[folder]:
            return set()
        self._files[folder] = content
        await self._home.get().put(folder.source, content)
        return {""}

    async def _take(
        self, held: Held, folder: Folder, since: float, without: Collection[tuple[Folder, str]]
    ) -> set[str]:
        names: set[str] = set()
        pack = ("sh", "-c", CHANGED, folder.target, f"{since:.3f}")
        with tempfile.TemporaryFile() as packed:
            async for data in written(partial(held.start, pack, cwd="/", recorded=False)):
                packed.write(data)
                if packed.tell() > MOST_BYTES:
                    raise CopyFailed(f"{folder.target} has more than {MOST_BYTES // MIB} MiB of changes")
            packed.seek(0)
            for file in await asyncio.to_thread(_files_of, packed):
                name = posixpath.normpath(file.name)
                if (folder, name) in without:
                    continue
                packed.seek(file.offset)
                content = packed.read(file.size)
                await self._home.get().put(f"{folder.source}/{name}", content, mode=file.mode)
                names.add(name)
        return names


async def settled() -> float:
    """Return a time after the change time of every file written so far, and before that of any written later."""
    await asyncio.sleep(SLACK_S)
    return time.time() - SLACK_S / 2


async def written(start: Callable[..., Awaitable[Process]]) -> AsyncIterator[bytes]:
    """Yield what a command writes, while it is written. Raises CopyFailed with its own words when it fails."""
    output, errors = Output(keep=0), b""
    with output.follow(past=False) as pieces:
        process = output.process = await start(on_output=output.feed)
        ended = asyncio.ensure_future(process.wait(COPY_S))
        ended.add_done_callback(lambda _: output.end())
        try:
            async for stream, data in pieces:
                if stream == "stdout":
                    yield data
                else:
                    errors = (errors + data)[-WORDS:]
            if (await ended).exit_code not in (0, CHANGED_MEANWHILE):
                raise CopyFailed(_words(errors))
        finally:
            if not ended.done():
                await process.signal(signal.SIGKILL)


@dataclass(frozen=True)
class PackedFile:
    """A regular file in an archive, and where its content begins."""

    name: str
    offset: int
    size: int
    mode: int


def _files_of(packed: IO[bytes]) -> list[PackedFile]:
    """The regular files of an archive. Raises CopyFailed."""
    found: list[PackedFile] = []
    try:
        with tarfile.open(fileobj=packed, mode="r:", tarinfo=BoundedHeader) as archive:
            for number, entry in enumerate(iter(archive.next, None)):
                archive.members = []  # type: ignore[attr-defined]
                if entry.isreg():
                    found.append(PackedFile(entry.name, entry.offset_data, entry.size, entry.mode & 0o777))
                if len(found) > MOST_FILES or number >= MOST_ENTRIES:
                    raise CopyFailed(f"more than {MOST_FILES} files have changed")
    except (tarfile.TarError, ValueError, OverflowError, RecursionError) as error:
        raise CopyFailed(f"its archive cannot be read: {error}") from error
    return found


def folders_of(binds: Sequence[object], mounts: Sequence[object]) -> list[Folder]:
    """Read `Binds` and `Mounts` of a request. Raises Refusal."""
    found = [_bind(str(bind)) for bind in binds]
    for mount in mounts:
        if not isinstance(mount, dict):
            raise Refusal(400, "Mounts: expected objects")
        if mount.get("Type") != "tmpfs":  # the disk of a sandbox is memory anyway
            place = _place(str(mount.get("Source") or secrets.token_hex(16)))
            found.append(Folder(place, _target(str(mount.get("Target", ""))), bool(mount.get("ReadOnly"))))
    if len(found) > MOST_FOLDERS:
        raise Refusal(400, f"a container has at most {MOST_FOLDERS} folders")
    return found


def _bind(text: str) -> Folder:
    """SOURCE:TARGET[:OPTIONS]."""
    source, separator, rest = text.partition(":")
    target, _, options = rest.partition(":")
    if not separator:
        source, target = secrets.token_hex(16), source
    return Folder(_place(source), _target(target), "ro" in options.split(","))


def _place(source: str) -> str:
    """A path of the client's box; the name of a volume stands for a folder there."""
    if source.startswith("/") and "\0" not in source:
        return posixpath.normpath(source)
    if NAME.fullmatch(source):
        return f"{VOLUMES}/{source}"
    raise Refusal(400, f"{source[:200]!r} is neither an absolute path nor the name of a volume")


def _target(target: str) -> str:
    if not target.startswith("/") or "\0" in target or posixpath.normpath(target).strip("/") == "":
        raise Refusal(400, f"invalid mount path: {target[:200]!r} must be absolute, and not the root")
    return posixpath.normpath(target)


def _words(said: bytes) -> str:
    return said.decode(errors="replace").strip()[-500:] or "no reason was given"
