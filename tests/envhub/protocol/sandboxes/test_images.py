"""Names of images: many spellings, one meaning; and what an operator's entry lets through."""

from __future__ import annotations

import pytest
from envhub.protocol.sandboxes.images import (
    AllowedRegistry,
    canonical,
    may_be_stood_in_for,
    python_wanted,
    reference_in,
    spellings,
)

DIGEST = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("python", "python:latest"),
        ("docker.io/library/python", "python:latest"),
        ("index.docker.io/python:3.11", "python:3.11"),
        ("team/tool", "team/tool:latest"),
        ("ghcr.io/Team".lower(), "ghcr.io/team:latest"),
        ("localhost:5000/x/y:1", "localhost:5000/x/y:1"),
        (f"python@{DIGEST}", f"python@{DIGEST}"),
        ("hub/base", "hub/base"),
        ("hub/base:latest", "hub/base"),
    ],
)
def test_a_name_has_one_spelling_that_is_kept(written: str, kept: str) -> None:
    assert canonical(written) == kept
    assert all(canonical(other) == kept for other in spellings(kept))


@pytest.mark.parametrize(
    "name", ["", "A B", "UPPER", "a//b", "../x", "a/../b", "-x", "x:", "x@sha256:12", "x\n", "x" * 400, "http://x/y"]
)
def test_what_is_no_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not the name of an image"):
        canonical(name)


@pytest.mark.parametrize(
    ("entry", "name", "found"),
    [
        ("docker.io", "python:3.11", "docker.io/library/python:3.11"),
        ("docker.io/library", "team/tool:1", ""),
        ("ghcr.io/team", "ghcr.io/team/x:1", "ghcr.io/team/x:1"),
        ("ghcr.io/team", "ghcr.io/teammate/x:1", ""),
        ("ghcr.io", "ghcr.io.evil.example/x:1", ""),
        ("docker.io=m.example.org:5000/hub", "a/b:1", "m.example.org:5000/hub/a/b:1"),
        ("docker.io=http://m.example.org", f"a/b@{DIGEST}", f"http://m.example.org/a/b@{DIGEST}"),
        ("docker.io", "hub/base", ""),
    ],
)
def test_an_entry_lets_through_what_lies_beneath_it(entry: str, name: str, found: str) -> None:
    assert reference_in([entry], name) == found


@pytest.mark.parametrize("entry", ["", "https://ghcr.io", "a b", "*", "docker.io=ftp://x", "x=--y"])
def test_an_entry_that_is_none_stops_the_hub(entry: str) -> None:
    with pytest.raises(ValueError, match="is not HOST"):
        AllowedRegistry.of(entry)


@pytest.mark.parametrize(
    ("name", "may", "python"),
    [
        ("python:3.11", True, "3.11"),
        ("python:3.11.9-slim-bookworm", True, "3.11"),
        ("python:3", True, ""),
        ("python:latest", True, ""),
        ("ubuntu:22.04", True, ""),
        ("python:3.11-alpine", False, ""),
        ("pypy:3.11", False, ""),
        ("ghcr.io/x/python:3.11", False, ""),
    ],
)
def test_what_the_hubs_own_image_may_serve(name: str, may: bool, python: str) -> None:
    assert (may_be_stood_in_for(name), python_wanted(name)) == (may, python)
