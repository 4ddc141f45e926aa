"""NLTK's index: what `nltk.download` reads first. The source's own where the hub has it, and the packages kept here."""

from __future__ import annotations

import hashlib
import io
import zipfile
from collections.abc import Iterable
from typing import BinaryIO
from xml.etree import ElementTree

from hub.core.errors import Invalid
from hub.data.models import OutsideFile

LARGEST_INDEX = 16 * 1024**2
PIECE = 1024**2


def measure(stream: BinaryIO) -> dict[str, str | int]:
    """What the index says of a package beside its SHA-256. Raises Invalid when it is no zip file."""
    digest = hashlib.md5(usedforsecurity=False)
    while piece := stream.read(PIECE):
        digest.update(piece)
    stream.seek(0)
    try:
        with zipfile.ZipFile(stream) as archive:
            size = sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, ValueError, OSError) as error:
        raise Invalid(f"NLTK's packages are zip files: {error}") from error
    return {"md5": digest.hexdigest(), "unzipped_size": size}


def index(packages: Iterable[OutsideFile], source: bytes | None) -> bytes:
    """The XML: `packages` are as they are kept, whatever `source` (the upstream index) says of them."""
    root = _parsed(source)
    listed = root.find("packages")
    if listed is None:
        listed = ElementTree.SubElement(root, "packages")
    if root.find("collections") is None:
        ElementTree.SubElement(root, "collections")
    known = {entry.get("id"): entry for entry in listed.findall("package")}
    for row in packages:
        entry = known.get(row.name)
        if entry is None:
            entry = ElementTree.SubElement(listed, "package", id=row.name, name=row.name)
        folder, _, last = row.url.removesuffix("/").rpartition("/")
        entry.attrib.update(
            url=row.url,
            subdir=folder.rpartition("/")[2],
            size=str(row.blob.size),
            unzipped_size=str(row.details.get("unzipped_size", 0)),
            checksum=str(row.details.get("md5", "")),
            sha256_checksum=row.blob.sha256,
            unzip=entry.get("unzip", "1") if last.endswith(".zip") else "0",
        )
    out = io.BytesIO()
    ElementTree.ElementTree(root).write(out, encoding="utf-8", xml_declaration=True)
    return out.getvalue()


def _parsed(source: bytes | None) -> ElementTree.Element:
    """The source's index; an empty one for none, and for one that cannot be read."""
    if source is not None and len(source) <= LARGEST_INDEX and b"<!ENTITY" not in source:
        try:
            return ElementTree.fromstring(source)  # noqa: S314  of an allowed host; expat bounds what entities grow to
        except ElementTree.ParseError:
            pass
    return ElementTree.Element("nltk_data")
