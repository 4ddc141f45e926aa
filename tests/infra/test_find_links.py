"""A folder of wheels that pip knows is found wherever pip is told of it: hosts without torch's index are set up so."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.infra.tools import ROOT


def test_the_folder_of_wheels_is_found_that_the_environment_names(tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    env["PIP_FIND_LINKS"] = str(tmp_path)
    done = subprocess.run(
        [ROOT / "infra/setup/find_links.sh"], env=env, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == str(tmp_path)
