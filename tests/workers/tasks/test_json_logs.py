"""A worker that logs JSON says in each line which worker it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.matrix
def test_each_line_names_the_worker(tmp_path: Path) -> None:
    environment = {**os.environ, "WORKER_LOG_FORMAT": "json", "WORKER_NAME": "builder", "WORKER_DATA": str(tmp_path)}
    environment |= {"WORKER_HUB_URL": "http://127.0.0.1:1", "WORKER_TOKEN": "hubw_" + "A1" * 20}
    with subprocess.Popen(
        [sys.executable, "-m", "workers"], env=environment, stderr=subprocess.PIPE, text=True
    ) as worker:
        assert worker.stderr is not None
        told = worker.stderr.readline()
        worker.terminate()
    line = json.loads(told)
    assert line["worker"] == "builder"
    assert line["time"].endswith("Z")
