"""Golden files of sandboxes: hub, worker and command line of different versions understand each other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from envhub.protocol.sandboxes import sandboxes
from pydantic import BaseModel

GOLDEN = Path(__file__).resolve().parent / "golden" / "sandboxes"
TYPES: dict[str, type[BaseModel]] = {
    "command": sandboxes.CommandView,
    "done": sandboxes.Done,
    "exec_request": sandboxes.ExecRequest,
    "exec_result": sandboxes.ExecResult,
    "output_end": sandboxes.OutputEvent,
    "output_event": sandboxes.OutputEvent,
    "payload": sandboxes.SandboxPayload,
    "port_address": sandboxes.PortAddress,
    "port_request": sandboxes.PortRequest,
    "process": sandboxes.ProcessView,
    "process_request": sandboxes.ProcessRequest,
    "report": sandboxes.SandboxReport,
    "request": sandboxes.SandboxRequest,
    "siblings_address": sandboxes.SiblingsAddress,
    "signal_request": sandboxes.SignalRequest,
    "stats": sandboxes.SandboxStats,
    "terminal_size": sandboxes.TerminalSize,
    "view": sandboxes.SandboxView,
}


def golden(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text())


@pytest.mark.parametrize("name", TYPES)
def test_every_type_is_read_back_without_loss(name: str) -> None:
    assert TYPES[name].model_validate(golden(name)).model_dump(mode="json") == golden(name)


def test_every_golden_file_has_its_type() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(TYPES)
