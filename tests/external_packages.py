"""Packages that we speak with and do not depend on: installed for the matrix tests, or given by NAME_PYTHON."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def python_with(package: str, folder: Path, *more: str) -> str:
    """An interpreter that has `package`, e.g. "mlflow": $MLFLOW_PYTHON, else of a new environment in `folder`, with
    `more` beside it."""
    if given := os.environ.get(f"{package.upper()}_PYTHON"):
        return given
    uv, python = Path(sys.executable).with_name("uv"), folder / "venv" / "bin" / "python"
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, folder / "venv"], check=True)
    subprocess.run([uv, "pip", "install", "-q", "--python", python, package, *more], check=True)
    return str(python)


def output_of(python: str, program: str, *arguments: str) -> str:
    """What a program prints."""
    command = [python, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout
