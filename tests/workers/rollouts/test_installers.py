"""What installers are told in sandboxes, as the real ones read it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.workers.wheels import make_wheel
from workers.rollouts.package_stores import INSTALLERS, SANDBOX_INSTALLERS


@pytest.mark.parametrize(("told", "compiled"), [(SANDBOX_INSTALLERS, False), (INSTALLERS, True)])
def test_pip_compiles_nothing_in_a_sandbox_and_all_in_an_image(
    tmp_path: Path, told: dict[str, str], compiled: bool
) -> None:
    wheel = make_wheel(tmp_path, "lib", files={"lib.py": "word = 'one'\n"})
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--no-index",
        "--target",
        str(tmp_path / "there"),
        str(wheel),
    ]
    subprocess.run(command, env={"PATH": os.environ["PATH"], **told}, check=True)
    assert (tmp_path / "there/lib.py").exists()
    assert bool(list((tmp_path / "there").rglob("*.pyc"))) is compiled
