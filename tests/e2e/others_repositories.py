"""Repositories of others that tests run as they are.

They come from GitHub, or from TEST_REPOSITORIES, a folder with a clone under each one's name; a test that can have
neither is skipped.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

GITHUB = "https://github.com/"
CLONE_S = 60.0


def cloned(repository: str, folder: Path, ref: str = "HEAD", *paths: str) -> Path:
    """A clone of OWNER/NAME in folder/NAME, with `paths`, or all of it, as they are at `ref`."""
    name = repository.rpartition("/")[2]
    beside = os.environ.get("TEST_REPOSITORIES")
    source = f"{Path(beside) / name}" if beside else f"{GITHUB}{repository}.git"
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0"}
    try:
        for arguments in (
            ("clone", "--quiet", "--no-checkout", source, name),
            ("-C", name, "checkout", ref, "--", *(paths or (".",))),
        ):
            command = ["git", "-c", "safe.directory=*", *arguments]
            subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True, timeout=CLONE_S)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"{repository} is not to be had ({error}); TEST_REPOSITORIES names a folder of clones")
    return folder / name
