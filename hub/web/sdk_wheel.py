"""The command line as this hub's own wheel, built from sdk/ once a process: who can reach the hub can install it."""

from __future__ import annotations

import hashlib
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from envhub import __version__
from envhub.packaging.build import build_package
from envhub.packaging.project import read_project

SOURCE = Path(__file__).resolve().parents[2] / "sdk"
FILENAME = f"envhub-{__version__}-py3-none-any.whl"


@dataclass(frozen=True)
class SdkWheel:
    """Its bytes; the same source gives the same ones."""

    content: bytes
    sha256: str


@cache
def sdk_wheel() -> SdkWheel:
    """Built at the first request, in less than a second and without network."""
    with tempfile.TemporaryDirectory() as out:
        content = build_package(read_project(SOURCE), Path(out)).wheel.read_bytes()
    return SdkWheel(content, hashlib.sha256(content).hexdigest())
