"""Golden files of bundles: what a hub has exported, every later one reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from envhub.packaging.bundles import read_manifest
from envhub.protocol.registry import bundles
from pydantic import BaseModel

from tests.contract.test_training_types import covers

GOLDEN = Path(__file__).resolve().parent / "golden" / "bundles"
TYPES: dict[str, type[BaseModel]] = {
    "export": bundles.BundleExport,
    "import": bundles.BundleImport,
    "imported": bundles.BundleImported,
    "key": bundles.BundleKey,
    "manifest": bundles.BundleManifest,
    "request": bundles.BundleRequest,
    "signature": bundles.BundleSignature,
}


def golden(name: str) -> Any:
    return json.loads((GOLDEN / f"{name}.json").read_text())


@pytest.mark.parametrize("name", TYPES)
def test_every_type_is_read_back_without_loss(name: str) -> None:
    value = TYPES[name].model_validate(golden(name))
    assert covers(value.model_dump(mode="json"), golden(name))


def test_every_golden_file_has_its_type() -> None:
    assert {path.stem for path in GOLDEN.glob("*.json")} == set(TYPES)


def test_a_manifest_of_the_first_format_is_read_as_it_was_signed() -> None:
    assert read_manifest(golden("export")["manifest"]) == bundles.BundleManifest.model_validate(golden("manifest"))
