"""infra/settings.md names every setting with its default, and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from hub.config.environment import HubEnvironment
from workers.settings import WorkerEnvironment

TEXT = (Path(__file__).parents[3] / "infra/settings.md").read_text()


def written(prefix: str) -> dict[str, str]:
    rows = re.findall(rf"^\| `({prefix}[A-Z0-9_]+)` \| (?:`(.*?)`)? ?\| \S.* \|$", TEXT, re.MULTILINE)
    return dict(rows)


def default_of(field: FieldInfo) -> str:
    """As one would write it into the environment; empty where it depends on the machine."""
    value: Any = field.get_default(call_default_factory=True)
    if value is None or (field.default_factory is not None and isinstance(value, str)):
        return ""
    if isinstance(value, bool | list | dict | tuple):
        return json.dumps(value)
    value = getattr(value, "get_secret_value", lambda: value)()
    return str(value).rstrip("/")


@pytest.mark.parametrize(("prefix", "settings"), [("HUB_", HubEnvironment), ("WORKER_", WorkerEnvironment)])
def test_every_setting_is_there_with_its_default(prefix: str, settings: type[BaseSettings]) -> None:
    known = {f"{prefix}{name.upper()}": default_of(field) for name, field in settings.model_fields.items()}
    assert written(prefix) == known
