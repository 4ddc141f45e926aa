"""`hub open` finds the page of whatever is named."""

from __future__ import annotations

import webbrowser

import pytest

from hub.accounts.models import User
from hub.evals.models import Evaluation
from tests.envhub.cli.conftest import Cli
from tests.factories.evals import create_hosted


@pytest.fixture
def evaluation(cli: Cli) -> Evaluation:
    return create_hosted(User.objects.get(username="alice"))


def test_it_opens_what_is_named(cli: Cli, evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    pages = {
        "": "/",
        "tiny-env": "/environments/alice/tiny-env",
        "alice/tiny-env@0.1.0": "/environments/alice/tiny-env/versions/0.1.0",
        "stub": "/models/alice/stub",
        str(evaluation.pk): f"/evaluations/{evaluation.pk}",
        str(evaluation.run_id): f"/runs/{evaluation.run_id}",
    }
    for what, page in pages.items():
        assert cli.json("open", *([what] if what else []))["url"].endswith(page), what
    assert [url.partition("://")[2].partition("/")[2] for url in opened] == [page[1:] for page in pages.values()]


def test_what_is_not_there_is_not_opened(cli: Cli, evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda url: pytest.fail(url))
    for what in ("nothing-there", "alice/tiny-env@9.9.9", "0123456789abcdef"):
        assert "Traceback" not in cli("open", what, code=1).output
    assert cli("open", "tiny-env", "--no-browser").output.strip().endswith("/environments/alice/tiny-env")
