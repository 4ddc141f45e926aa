"""Unpack an image from a file: an OCI layout, the output of `docker save`, or a root file system's tar."""

from __future__ import annotations

import json
import platform
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any, Protocol, cast

from envhub.packaging.archives.tar_headers import BoundedHeader
from envhub.protocol.sandboxes.images import Layout
from pydantic import ValidationError

from workers.images.config import ImageConfig, RawConfig
from workers.images.errors import BadImage
from workers.images.layers import Layer
from workers.images.settle import settle
from workers.images.streams import MIB, Budget, Forward, decompressed
from workers.images.tree import Tree, parts_of

LARGEST_JSON = 4 * MIB
MOST_LAYERS = 500
MOST_PARTS, LONGEST_NAME = 10_000, 4096  # of a tar with layers
DEEPEST_INDEX = 4
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


class Files(Protocol):
    """The files of an archive, by name."""

    def open(self, name: str) -> AbstractContextManager[IO[bytes]]:
        """Open a file as a seekable stream. Raises BadImage if there is none."""
        ...

    def size(self, name: str) -> int: ...

    def has(self, name: str) -> bool: ...


class FolderFiles:
    """The files of a directory that nobody else writes to."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        if not self.has(name):
            raise BadImage(f"it lacks {name[:200]}")
        with self._path(name).open("rb") as stream:
            yield stream

    def size(self, name: str) -> int:
        return self._path(name).stat().st_size if self.has(name) else 0

    def has(self, name: str) -> bool:
        path = self._path(name)
        return path.is_file() and path.resolve().is_relative_to(self._folder.resolve())

    def _path(self, name: str) -> Path:
        return self._folder.joinpath(*parts_of(name))


class TarFiles:
    """The files of a tar, of which only the index is kept in memory."""

    def __init__(self, path: Path, budget: Budget) -> None:
        self._path = path
        self._places: dict[str, tuple[int, int]] = {}
        with (
            path.open("rb") as stream,
            tarfile.open(fileobj=Forward(stream, budget), mode="r:", tarinfo=BoundedHeader) as archive,
        ):
            while (info := archive.next()) is not None:
                archive.members = []  # type: ignore[attr-defined]
                budget.take_file()
                if info.isreg() and len(info.name) <= LONGEST_NAME:
                    self._places["/".join(parts_of(info.name))] = (info.offset_data, info.size)
                if len(self._places) > MOST_PARTS:
                    raise BadImage(f"it consists of more than {MOST_PARTS} files")

    @contextmanager
    def open(self, name: str) -> Iterator[IO[bytes]]:
        start, size = self._places.get("/".join(parts_of(name)), (0, -1))
        if size < 0:
            raise BadImage(f"it lacks {name[:200]}")
        with self._path.open("rb") as stream:
            yield cast("IO[bytes]", Window(stream, start, size))

    def size(self, name: str) -> int:
        return self._places.get("/".join(parts_of(name)), (0, 0))[1]

    def has(self, name: str) -> bool:
        return "/".join(parts_of(name)) in self._places


class Window:
    """A part of a file that behaves like a file."""

    def __init__(self, stream: IO[bytes], start: int, size: int) -> None:
        self._stream, self._start, self._size = stream, start, size
        self.closed = False
        self.seek(0)

    def read(self, size: int = -1) -> bytes:
        left = self._size - self.tell()
        return self._stream.read(left if size < 0 else min(size, left)) if left > 0 else b""

    def tell(self) -> int:
        return self._stream.tell() - self._start

    def seek(self, offset: int, whence: int = 0) -> int:
        base = {0: 0, 1: self.tell(), 2: self._size}[whence]
        return self._stream.seek(self._start + base + offset) - self._start

    def close(self) -> None:
        """Close the window only; the underlying file is closed by its opener."""
        self.closed = True

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def unpack(path: Path, layout: Layout, root: Path, budget: Budget) -> ImageConfig:
    """Fill `root`, an existing empty directory, from a file, or from a directory with an OCI layout.

    Raises BadImage.
    """
    try:
        with Tree(root) as tree:
            if path.is_dir():
                config = _layered(FolderFiles(path), layout, tree, budget)
            elif layout == "rootfs":
                config = _whole(path, tree, budget)
            else:
                with _plain(path, root.parent, budget) as plain:
                    config = _layered(TarFiles(plain, budget), layout, tree, budget)
            settle(tree)
    except (tarfile.TarError, RecursionError) as error:
        raise BadImage(f"its archive is broken: {error}") from error
    return config


def unpack_folder(path: Path, folder: Path, budget: Budget) -> None:
    """Unpack a user's tar of a folder as it is. Raises BadImage."""
    with Tree(folder) as tree:
        _whole(path, tree, budget)


def _whole(path: Path, tree: Tree, budget: Budget) -> ImageConfig:
    budget.packed += path.stat().st_size
    with path.open("rb") as stream, decompressed(stream) as plain:
        Layer(tree, budget, whiteouts=False).apply(plain)
    return ImageConfig()


@contextmanager
def _plain(path: Path, scratch: Path, budget: Budget) -> Iterator[Path]:
    """Yield the file uncompressed, because layers may lie in it in any order. The space it takes counts."""
    budget.packed += path.stat().st_size
    with path.open("rb") as stream, decompressed(stream) as source:
        if source is stream:
            yield path
            return
        with tempfile.NamedTemporaryFile(dir=scratch, prefix=".plain-") as target:
            shutil.copyfileobj(Forward(source, budget), target, MIB)
            target.flush()
            yield Path(target.name)


def _layered(files: Files, layout: Layout, tree: Tree, budget: Budget) -> ImageConfig:
    config, layers = _docker(files) if layout == "docker" else _oci(files)
    if len(layers) > MOST_LAYERS:
        raise BadImage(f"it has {len(layers)} layers, more than {MOST_LAYERS}")
    budget.packed += sum(files.size(layer) for layer in layers)
    for layer in layers:
        with files.open(layer) as stream, decompressed(stream) as plain:
            Layer(tree, budget).apply(plain)
    return config


def _docker(files: Files) -> tuple[ImageConfig, list[str]]:
    manifests = _json(files, "manifest.json")
    first = manifests[0] if isinstance(manifests, list) and manifests else None
    layers = first.get("Layers") if isinstance(first, dict) else None
    if not isinstance(first, dict) or not isinstance(layers, list) or not all(isinstance(one, str) for one in layers):
        raise BadImage("its manifest.json lists no image")
    return _config(files, str(first.get("Config", ""))), layers


def _oci(files: Files) -> tuple[ImageConfig, list[str]]:
    manifest = _json(files, "index.json")
    for _ in range(DEEPEST_INDEX):
        if not isinstance(manifest, dict) or not isinstance(manifest.get("manifests"), list):
            break
        manifest = _json(files, _blob(_mine(manifest["manifests"])))
    layers = manifest.get("layers") if isinstance(manifest, dict) else None
    if not isinstance(manifest, dict) or not isinstance(layers, list):
        raise BadImage("its index lists no image")
    return _config(files, _blob(manifest.get("config"))), [_blob(layer) for layer in layers]


def _mine(manifests: list[Any]) -> Mapping[str, Any]:
    """Return the manifest for this machine; one that names no machine fits any."""
    machine = ARCHITECTURES.get(platform.machine(), platform.machine())
    for wanted in (machine, ""):
        for one in manifests:
            place = one.get("platform") if isinstance(one, dict) else None
            if (place.get("architecture", "") if isinstance(place, dict) else "") == wanted and isinstance(one, dict):
                return one
    raise BadImage(f"it is not for this machine type, {machine}")


def _blob(descriptor: Any) -> str:
    digest = descriptor.get("digest") if isinstance(descriptor, dict) else None
    kind, _, value = str(digest).partition(":")
    if not kind.isalnum() or not value.isalnum():
        raise BadImage("a part of it has no digest")
    return f"blobs/{kind}/{value}"


def _config(files: Files, name: str) -> ImageConfig:
    try:
        return RawConfig.model_validate(_json(files, name)).config.clean()
    except ValidationError as error:
        raise BadImage(f"its configuration is broken: {error.errors()[0]['msg']}") from error


def _json(files: Files, name: str) -> Any:
    if files.size(name) > LARGEST_JSON:
        raise BadImage(f"{name[:200]} is too large")
    with files.open(name) as stream:
        try:
            return json.loads(stream.read(LARGEST_JSON))
        except (ValueError, RecursionError) as error:
            raise BadImage(f"{name[:200]} is not JSON") from error
