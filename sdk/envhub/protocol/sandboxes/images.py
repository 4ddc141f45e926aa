"""Wire types and names of sandbox images: what the hub stores, and where a worker gets an image.

A name can be written in many ways (`python`, `python:latest`, `docker.io/library/python:latest`); the hub stores one
form, the shortest with its tag, as container engines show it. A name refers to an image of the run's owner, or of
everybody; `hub/OWNER/NAME:TAG` names the owner (Prime's clients write `prime/OWNER/NAME:TAG`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from envhub.protocol.base import BlobRef, Request, Response, Sha256, Size, Slug
from envhub.protocol.visibility import Visibility

# each as a tar: an OCI layout, the output of `docker save`, a root file system
Layout = Literal["oci", "docker", "rootfs"]
BASE = "hub/base"  # the image that a hub makes itself
OWNED = ("hub", "prime")  # prefixes of names that include the image's owner
DOCKER = "docker.io"
LONGEST_NAME = 300
DIGEST = r"sha256:[0-9a-f]{64}"
ImageName = Annotated[str, StringConstraints(min_length=1, max_length=LONGEST_NAME)]
BuildArgument = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")]
Digest = Annotated[str, StringConstraints(pattern=f"^{DIGEST}$")]
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*(?::[0-9]{1,5})?"
_NAME = re.compile(
    rf"(?:(?P<host>{_HOST})/)?(?P<path>{_PART}(?:/{_PART})*)(?::(?P<tag>\w[\w.-]{{0,127}}))?(?:@(?P<digest>{DIGEST}))?",
    re.ASCII,
)


@dataclass(frozen=True)
class Reference:
    """A parsed image name. The tag is "" if there is only a digest."""

    registry: str
    repository: str
    tag: str
    digest: str

    @property
    def name(self) -> str:
        """The form of the name that the hub keeps."""
        official = self.repository.removeprefix("library/")
        path = official if self.registry == DOCKER else f"{self.registry}/{self.repository}"
        return path + (f":{self.tag}" if self.tag else "") + (f"@{self.digest}" if self.digest else "")


class OwnedImage(Request):
    """An image, by name and owner: `owner`'s (default: the caller's own), or everybody's (administrators)."""

    name: ImageName
    owner: Slug | None = None
    everybody: bool = False


class ImageRequest(OwnedImage):
    """Add an image by hand.

    Its archive was uploaded as a blob. `visibility` None: unchanged; private for a new image.
    """

    layout: Layout
    sha256: Sha256
    size: Size
    visibility: Visibility | None = None


class ImageBuildRequest(OwnedImage):
    """Build an image from a folder with a Dockerfile. The folder's tar was uploaded as a blob."""

    visibility: Visibility | None = None
    sha256: Sha256
    size: Size
    dockerfile: str = Field(default="Dockerfile", min_length=1, max_length=300)  # path within the folder
    arguments: dict[BuildArgument, Annotated[str, StringConstraints(max_length=10_000)]] = Field(
        default_factory=dict, max_length=100
    )


class ImageBuildView(Response):
    """The run that builds an image. The name refers to the image once the run has succeeded."""

    name: str
    run_id: str


class ImageBuildPayload(Response):
    """`Claim.payload` of an image run."""

    name: str
    context: BlobRef
    dockerfile: str
    arguments: dict[str, str]


class ImageBuilt(Request):
    """What an image run has built: a tar as written by `docker save`, uploaded as a blob."""

    sha256: Sha256
    size: Size


class ImageDeletion(OwnedImage):
    """The image to delete."""


class ImagePatch(OwnedImage):
    """Change who may use an owner's image.

    A private image is for the owner's members. A public one is also for everybody who names it `hub/OWNER/NAME`, or
    runs an environment of its owner.
    """

    visibility: Visibility


class ImageView(Response):
    """An image at the hub: an archive that `added_by` added or, without a layout, the digest that the first worker
    pulled and that all workers pull from then on.
    """

    name: str
    owner: str = ""  # "": everybody's
    visibility: Visibility = Visibility.PUBLIC
    digest: str
    layout: Layout | None
    size: int
    added_by: str
    created_at: datetime


class ImageWanted(Request):
    """The image that a run requests."""

    name: ImageName


class ImageSource(Response):
    """Where a worker gets an image: its archive, else `reference` in a registry (with the digest once it is pinned).

    If neither is available or given, the hub's own image may stand in for one that is not pinned.
    """

    name: str
    digest: str = ""  # digest of the archive's content or of the manifest; "" if not pinned yet
    layout: Layout | None = None
    blob: BlobRef | None = None
    reference: str = ""  # "registry.example.org/library/python:3.11-slim"; with the prefix "http://" TLS is not used
    stand_in: bool = False


class ImagePulled(Request):
    """The digest that a worker found under a name that is not pinned."""

    name: ImageName
    digest: Digest


class ImagePinned(Response):
    """What the name refers to from now on: the first digest that was reported."""

    name: str
    digest: str


def parse(name: str) -> Reference:
    """Parse a name the way container engines do. Raises ValueError."""
    found = _NAME.fullmatch(name) if len(name) <= LONGEST_NAME else None
    if found is None:
        raise ValueError(f"not the name of an image: {name[:200]!r}")
    host, path, digest = found["host"] or "", found["path"], found["digest"] or ""
    if host and not (set(".:") & set(host) or host == "localhost" or host != host.lower()):
        host, path = "", f"{host}/{path}"
    if host in ("", "index.docker.io", DOCKER):
        host, path = DOCKER, path if "/" in path else f"library/{path}"
    return Reference(host, path, found["tag"] or ("" if digest else "latest"), digest)


def canonical(name: str) -> str:
    """Normalise a name. Raises ValueError."""
    return BASE if name in (BASE, f"{BASE}:latest") else parse(name).name


def is_name(name: str) -> bool:
    """Return whether an image may be called that."""
    try:
        canonical(name)
    except ValueError:
        return False
    return True


def owned(name: str) -> tuple[str, str] | None:
    """Split a canonical name that includes its owner into owner and name; return None for others."""
    place, _, rest = name.partition("/")
    owner, _, rest = rest.partition("/")
    return (owner, rest) if place in OWNED and rest else None


def spellings(name: str) -> tuple[str, ...]:
    """Return the other ways in which packages may write a canonical name."""
    if name == BASE:
        return (BASE,)
    it = parse(name)
    whole = f"{it.registry}/{it.repository}" + name.removeprefix(Reference(it.registry, it.repository, "", "").name)
    found = [name, whole, whole.removeprefix(f"{DOCKER}/")]
    found += [one.removesuffix(":latest") for one in found]
    return tuple(dict.fromkeys(found))


@dataclass(frozen=True)
class AllowedRegistry:
    """An entry of HUB_IMAGE_REGISTRIES: HOST[:PORT][/PREFIX][=MIRROR]."""

    place: str
    mirror: str

    @classmethod
    def of(cls, entry: str) -> AllowedRegistry:
        """Parse an entry. Raises ValueError."""
        place, _, mirror = entry.partition("=")
        place, mirror = place.strip().rstrip("/"), mirror.strip().rstrip("/")
        bare = re.escape("http://")
        if not re.fullmatch(rf"(?:{bare})?{_HOST}(?:/{_PART})*", place, re.ASCII) or (
            mirror and not re.fullmatch(rf"(?:{bare})?{_HOST}(?:/{_PART})*", mirror, re.ASCII)
        ):
            raise ValueError(f"{entry!r} is not HOST[:PORT][/PREFIX][=MIRROR]")
        return cls(place.removeprefix("http://"), mirror or place)

    def reference(self, name: Reference) -> str:
        """Return where to pull the image through this entry, or "" if the entry does not allow it."""
        whole = f"{name.registry}/{name.repository}"
        if whole != self.place and not whole.startswith(f"{self.place}/"):
            return ""
        return self.mirror + whole.removeprefix(self.place) + (f"@{name.digest}" if name.digest else f":{name.tag}")


def reference_in(entries: Iterable[str], name: str) -> str:
    """Return where to pull a canonical name through the first entry that allows it, or ""."""
    if name == BASE or owned(name) is not None:
        return ""
    it = parse(name)
    found = (AllowedRegistry.of(entry).reference(it) for entry in entries)
    return next(filter(None, found), "")


STAND_INS = re.compile(
    r"python:(?P<python>latest|slim|3|3-slim|3\.\d+(?:\.\d+)?)(?:-slim)?(?:-(?:bookworm|trixie|bullseye))?"
    r"|(?:debian|ubuntu):[\w.-]+",
    re.ASCII,
)


def may_be_stood_in_for(name: str) -> bool:
    """Return whether the hub's own image may replace a canonical name; Python images need the right minor version."""
    return STAND_INS.fullmatch(name) is not None


def python_wanted(name: str) -> str:
    """Return the minor version of Python ("3.11") that a stand-in for this name must have, or "" for any."""
    found = STAND_INS.fullmatch(name)
    version = (found["python"] or "") if found else ""
    return ".".join(version.split(".")[:2]) if version.count(".") else ""
