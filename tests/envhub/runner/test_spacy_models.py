"""Models of spaCy that a package names are installed from what the hub keeps."""

from __future__ import annotations

import io
import sys
import urllib.error
import zipfile
from pathlib import Path
from typing import Any

import pytest
from envhub.protocol.registry.files import name_of, url_of
from envhub.runner import spacy_models

SOURCE = 'import spacy\nnlp = spacy.load("en_core_web_sm")\n'


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where packages are: spaCy, and one that names a model of it."""
    (tmp_path / "spacy.py").touch()
    (tmp_path / "asks_spacy.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    return tmp_path


def wheel() -> bytes:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as archive:
        archive.writestr("en_core_web_sm/__init__.py", "")
        archive.writestr("../outside.py", "")
    return sink.getvalue()


def test_a_model_that_the_hub_keeps_is_there_before_the_package_loads(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def answer(url: str, timeout: float) -> Any:
        asked.append(url)
        return io.BytesIO(wheel())

    monkeypatch.setattr("urllib.request.urlopen", answer)
    spacy_models.install_models("asks_spacy")
    spacy_models.install_models("asks_spacy")
    assert asked == [url_of("spacy", "en_core_web_sm")]
    assert (site / "en_core_web_sm/__init__.py").exists()
    assert not (site.parent / "outside.py").exists()


def test_one_that_it_has_not_is_left_to_spacy_to_miss(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(url: str, timeout: float) -> Any:
        raise urllib.error.URLError("no answer")

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    spacy_models.install_models("asks_spacy")
    assert "en_core_web_sm" in capsys.readouterr().err


def test_nothing_is_looked_at_without_spacy(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (site / "spacy.py").unlink()
    sys.modules.pop("spacy", None)
    monkeypatch.setattr(spacy_models, "source_of", lambda module: pytest.fail("it was"))
    spacy_models.install_models("asks_spacy")


def test_its_address_is_its_name() -> None:
    assert name_of(url_of("spacy", "en_core_web_sm")) == ("spacy", "en_core_web_sm")
