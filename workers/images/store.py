"""The unpacked images of a host, `<digest>/rootfs` beside `<digest>/image.json`, shared by all its runs and workers.

An image appears completely or not at all (it is made beside its place, then renamed). There are two lock files per
image: its maker holds `.locks/<digest>.make` exclusively, its users share `.locks/<digest>.use`. The kernel releases
both when a process ends.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import re
import subprocess
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from workers.images.config import ImageConfig
from workers.runs.file_lock import exclusive_lock
from workers.runs.trimming import last_use

logger = logging.getLogger(__name__)
DIGEST = re.compile(r"sha256:([0-9a-f]{64})")
ROOT, ABOUT, LOCKS = "rootfs", "image.json", ".locks"
MAKING, GONE, PULLING = ".making-", ".gone-", ".pull-"
LONGEST_PULL_S = 2 * 3600.0
PATIENCE_S, PAUSE_S = 30.0, 0.02  # for a process that is just deciding whether to remove the image


class Kept(BaseModel):
    """The record of an unpacked image."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    digest: str
    config: ImageConfig
    size: int  # bytes on disk
    python: str = ""  # such as "3.11"; for images that may replace others
    pulled: bool = False  # from a registry, which gives it to all runs of the host


Make = Callable[[Path], Awaitable[ImageConfig]]  # fills a directory


class Holding:
    """An image in use: it is not removed before `release` or the end of this process."""

    def __init__(self, kept: Kept, root: Path, lock: int) -> None:
        self.kept, self.root, self._lock = kept, root, lock

    def release(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
        self._lock = -1


class Store:
    """The images below `folder`, trimmed to `max_bytes` as far as they are not in use."""

    def __init__(self, folder: Path, *, max_bytes: int) -> None:
        self.folder, self._max_bytes = folder, max_bytes
        (folder / LOCKS).mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)

    async def take(self, digest: str) -> Holding | None:
        """Take an image into use; None if it is not here."""
        name = name_of(digest)
        if not (self.folder / name / ABOUT).exists():
            return None
        lock = await self._share(name)
        kept = self._read(name)
        if kept is None:
            os.close(lock)
            return None
        os.utime(self.folder / name)
        return Holding(kept, self.folder / name / ROOT, lock)

    async def ensure(self, digest: str, make: Make, *, pulled: bool = False) -> Holding:
        """Take an image into use; if it is missing, one of all waiting processes makes it with `make`."""
        name, made = name_of(digest), False
        while (found := await self.take(digest)) is None:
            async with exclusive_lock(self.folder / LOCKS / f"{name}.make"):
                if self._read(name) is None:
                    await asyncio.to_thread(delete, self.folder / name)
                    await self._make(name, digest, make, pulled)
                    made = True
        if made:
            await asyncio.to_thread(self.trim)
        return found

    async def _make(self, name: str, digest: str, make: Make, pulled: bool) -> None:
        for left in self.folder.glob(f"{MAKING}{name}-*"):  # by a process that was killed
            await asyncio.to_thread(delete, left)
        # its own, because threads of a cancelled `make` go on writing to theirs
        making = self.folder / f"{MAKING}{name}-{os.urandom(4).hex()}"
        root = making / ROOT
        root.mkdir(parents=True)
        for path in (making, root):
            path.chmod(0o755)
        try:
            config = await make(root)
            kept = await asyncio.to_thread(_measured, digest, config, root, pulled)
            (making / ABOUT).write_text(kept.model_dump_json())
            os.rename(making, self.folder / name)
        except BaseException:
            await asyncio.shield(asyncio.to_thread(delete, making))
            raise

    async def _share(self, name: str) -> int:
        descriptor = os.open(self.folder / LOCKS / f"{name}.use", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            async with asyncio.timeout(PATIENCE_S):
                while True:
                    try:
                        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    except BlockingIOError:
                        await asyncio.sleep(PAUSE_S)
                    else:
                        return descriptor
        except BaseException:
            os.close(descriptor)
            raise

    def trim(self) -> int:
        """Remove unused images, the least recently used first, until the rest fits, and remove leftovers of dead
        processes.

        Returns how many images were removed.
        """
        for left in self._leftovers():
            delete(left)
        images = (path for path in self.folder.iterdir() if re.fullmatch(r"[0-9a-f]{64}", path.name))
        found = [(last_use(path) or 0.0, path) for path in images]
        kept = {path: self._read(path.name) for _, path in found}
        total, gone = sum(one.size for one in kept.values() if one is not None), 0
        spared = self._spared()
        for _, path in sorted(found):
            if total <= self._max_bytes:
                break
            if path.name != spared and self._remove(path):
                one = kept[path]
                total, gone = total - (one.size if one is not None else 0), gone + 1
        if gone:
            logger.info("%d unused images deleted to stay within %d MB", gone, self._max_bytes // 1024**2)
        return gone

    def _remove(self, path: Path) -> bool:
        with _try_lock(self.folder / LOCKS / f"{path.name}.use") as mine:
            if not mine:
                return False
            gone = self.folder / f"{GONE}{path.name}-{os.getpid()}"
            try:
                os.rename(path, gone)
            except OSError:  # another process was faster
                return False
        delete(gone)
        return True

    def _leftovers(self) -> Iterator[Path]:
        for path in self.folder.iterdir():
            if path.name.startswith(GONE):
                yield path
            elif path.name.startswith(MAKING):
                name = path.name.removeprefix(MAKING).partition("-")[0]
                with _try_lock(self.folder / LOCKS / f"{name}.make") as mine:
                    if mine:
                        yield path
            elif path.name.startswith(PULLING) and (last_use(path) or 0.0) < time.time() - LONGEST_PULL_S:
                yield path

    def _spared(self) -> str:
        """Return the name of the image that is never trimmed: hub/base, which cannot be made again everywhere."""
        pointer = self.pointer("base")
        return name_of(pointer) if pointer else ""

    def pointer(self, name: str) -> str:
        """Return the digest that a name points to on this host, "" if there is none."""
        try:
            text = (self.folder / f"{name}.digest").read_text().strip()
        except FileNotFoundError:
            return ""
        return text if DIGEST.fullmatch(text) else ""

    def point(self, name: str, digest: str) -> None:
        """Make `name` point to that digest on this host."""
        new = self.folder / f".{name}-{os.getpid()}"
        new.write_text(digest)
        os.replace(new, self.folder / f"{name}.digest")

    def _read(self, name: str) -> Kept | None:
        try:
            return Kept.model_validate_json((self.folder / name / ABOUT).read_text())
        except (OSError, ValidationError):
            return None


def name_of(digest: str) -> str:
    """Return the directory name of a digest. Raises ValueError, because a digest may come from outside."""
    found = DIGEST.fullmatch(digest)
    if found is None:
        raise ValueError(f"not a digest: {digest[:100]!r}")
    return found.group(1)


@contextmanager
def _try_lock(path: Path) -> Iterator[bool]:
    """Yield whether this process holds the lock file exclusively; it does not wait."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(descriptor)


def delete(path: Path) -> None:
    """Delete a tree with `rm`, which is fast and has no limit on depth."""
    subprocess.run(["rm", "-rf", "--one-file-system", "--", str(path)], check=False, stdin=subprocess.DEVNULL)


def _measured(digest: str, config: ImageConfig, root: Path, pulled: bool) -> Kept:
    done = subprocess.run(["du", "-sB1", "--", str(root)], check=True, capture_output=True, text=True)
    size = int(done.stdout.split()[0])
    return Kept(digest=digest, config=config, size=size, python=python_of(root), pulled=pulled)


def python_of(root: Path) -> str:
    """Return the minor version of the Python in the image, "" unless there is exactly one."""
    found = [path.name.removeprefix("python") for path in (root / "usr/bin").glob("python3.[0-9]*")]
    plain = [version for version in found if re.fullmatch(r"3\.\d+", version)]
    return plain[0] if len(plain) == 1 else ""
