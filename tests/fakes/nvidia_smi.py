"""A fake `nvidia-smi` on PATH: a script that prints what a test wants, fails, or hangs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

TWO_GPUS = """0, GPU-aaaa1111, NVIDIA H100 80GB HBM3, 81559, 81038, Disabled, 12
1, GPU-bbbb2222, NVIDIA H100 80GB HBM3, 81559, 80000, Disabled, 12
"""


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str = TWO_GPUS, *, then: str = "") -> Path:
    """Put it first on PATH; `then` is shell after the output. It appends its arguments to the file that is given."""
    folder.mkdir(exist_ok=True)
    (folder / "says").write_text(text)
    script = folder / "nvidia-smi"
    script.write_text(f'#!/bin/sh\necho "$@" >> "{folder}/asked"\ncat "{folder}/says"\n{then}\n')
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder / "asked"
