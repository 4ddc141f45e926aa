"""Folders as people pack them become source distributions, and come back as they were."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from envhub.errors import PackageError
from envhub.packaging.source_archives import needs_metadata, repack_source, sdist_of_source, source_of_sdist

PYPROJECT = '[project]\nname = "tiny-env"\nversion = "0.1.0"\n'
METADATA = b"Metadata-Version: 2.1\nName: tiny-env\nVersion: 0.1.0\n"


def packed(path: Path, files: Mapping[str, str], mode: int = 0o644) -> Path:
    with tarfile.open(path, "w:gz") as target:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text), mode
            target.addfile(entry, io.BytesIO(text.encode()))
    return path


def inside(path: Path) -> dict[str, str]:
    with tarfile.open(path) as opened:
        files = ((member.name, opened.extractfile(member)) for member in opened)
        return {name: file.read().decode() for name, file in files if file is not None}


@pytest.mark.parametrize("folder", ["", "tiny-env/"])
def test_a_source_is_put_into_one_folder_with_the_wheels_metadata_and_comes_back(tmp_path: Path, folder: str) -> None:
    files = {"pyproject.toml": PYPROJECT, "tiny_env.py": "x = 1\n", "data/rows.txt": "1"}
    left_out = {
        "dist/tiny_env-0.1.0.tar.gz": "",
        "__pycache__/x.pyc": "",
        ".tox/x": "",
        "PKG-INFO": "of an earlier build",
    }
    source = packed(tmp_path / "s.tar.gz", {f"{folder}{name}": text for name, text in (files | left_out).items()})
    sdist, again = tmp_path / "tiny_env-0.1.0.tar.gz", tmp_path / "again.tar.gz"
    sdist_of_source(source, METADATA, sdist)
    made = {f"tiny_env-0.1.0/{name}": text for name, text in (files | {"PKG-INFO": METADATA.decode()}).items()}
    assert inside(sdist) == made
    source_of_sdist(sdist, again)
    assert inside(again) == files


def test_the_same_source_gives_the_same_bytes_and_what_can_be_run_still_can(tmp_path: Path) -> None:
    files = {"pyproject.toml": PYPROJECT, "run.sh": "true\n"}
    made = []
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        target = tmp_path / str(number) / "tiny_env-0.1.0.tar.gz"
        sdist_of_source(packed(tmp_path / "s.tar.gz", files, 0o755), METADATA, target)
        made.append(target)
    assert made[0].read_bytes() == made[1].read_bytes()
    with tarfile.open(made[0]) as opened:
        assert opened.getmember("tiny_env-0.1.0/run.sh").mode == 0o755


DYNAMIC = '[build-system]\nrequires = ["{backend}"]\n[project]\nname = "tiny-env"\ndynamic = ["version"]\n'


@pytest.mark.parametrize(
    ("pyproject", "kept"),
    [
        (PYPROJECT, False),
        (DYNAMIC.format(backend="hatchling"), False),
        (DYNAMIC.format(backend="hatch_vcs>=0.4"), True),
        (DYNAMIC.format(backend="setuptools-scm[toml]"), True),
        (PYPROJECT + '[build-system]\nrequires = ["setuptools-scm"]\n', False),
    ],
)
def test_the_metadata_of_an_earlier_build_is_kept_only_as_the_source_of_the_version(
    tmp_path: Path, pyproject: str, kept: bool
) -> None:
    files = {"tiny/pyproject.toml": pyproject, "tiny/PKG-INFO": METADATA.decode(), "tiny/data/PKG-INFO": "of the task"}
    repacked = tmp_path / "repacked.tar.gz"
    repack_source(packed(tmp_path / "s.tar.gz", files), "tiny", repacked)
    assert ("source/PKG-INFO" in inside(repacked), "source/data/PKG-INFO" in inside(repacked)) == (kept, True)


@pytest.mark.parametrize("odd", [{"project": 3}, {"project": {"dynamic": 3}}, {"build-system": 3}, {}])
def test_the_metadata_is_not_kept_for_odd_files(odd: dict[str, Any]) -> None:
    assert not needs_metadata(odd)


def test_what_holds_no_project_is_refused(tmp_path: Path) -> None:
    source = packed(tmp_path / "s.tar.gz", {"tiny_env.py": ""})
    with pytest.raises(PackageError) as caught:
        sdist_of_source(source, METADATA, tmp_path / "tiny_env-0.1.0.tar.gz")
    assert caught.value.code == "no_pyproject"
