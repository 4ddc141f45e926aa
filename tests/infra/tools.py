"""The programs that infra/setup/tools.sh lays beside the checkout; where it could not, tests skip, in CI they fail."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = ROOT / ".venv-tools"
missing = not (TOOLS / ".stamp").exists() and "CI" not in os.environ
needs_tools = pytest.mark.skipif(missing, reason="infra/setup/tools.sh could not get its programs")
