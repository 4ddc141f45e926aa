"""A tiny untrained model on disk, made once."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    architecture = pytest.importorskip("workers.training.tiny.architecture")
    path = tmp_path_factory.mktemp("model") / "tiny"
    architecture.make_model(0).save_pretrained(path)
    architecture.make_tokenizer().save_pretrained(path)
    return path
