"""The pictures that chats show for public pages."""

from __future__ import annotations

import io
from functools import lru_cache
from typing import Any

import pytest
from django.test import Client
from PIL import Image

from hub.evals.models import Evaluation
from hub.registry.models import Environment
from hub.training.models import TrainingRun
from hub.web import previews
from hub.web.preview_pictures import HEIGHT, WIDTH, Preview, _drawable, draw
from tests.factories.accounts import make_user
from tests.factories.evals import create_hosted, make_records, start, store
from tests.factories.training_runs import create_run


def _size(png: bytes) -> tuple[int, int]:
    with Image.open(io.BytesIO(png)) as image:
        image.load()
        return image.size


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "W" * 100_000,
        "漢" * 5000,
        "a " * 5000,
        "\x00\x1b[31m\u202e\ud800",
        "<svg onload=x>",
        "é ± ·",
        "\ufdfa" * 5000,
    ],
)
def test_any_text_is_drawn_within_the_picture(text: str) -> None:
    png = draw(Preview(text, text, (text, text, text), text, text, (0.1,) * 3))
    assert _size(png) == (WIDTH, HEIGHT)
    with Image.open(io.BytesIO(png)) as image:
        edge = image.convert("L").crop((WIDTH - 60, 20, WIDTH, HEIGHT))
        assert edge.getextrema() == (255, 255), "nothing is written beyond the margin"
    assert len(png) < 60_000


def test_a_negative_reward_keeps_its_sign_in_the_pictures_font() -> None:
    assert _drawable("\u22120.250 \u00b1 0.1") == "-0.250 \u00b1 0.1"


@pytest.fixture
def evaluation(db: None) -> Evaluation:
    previews._kept.cache_clear()
    found = create_hosted(make_user("alice"))
    start(found)
    store(found, make_records((1.0, 0.5), (0.5, 1.0)))
    return found


def _publish() -> None:
    Environment.objects.update(visibility="public")
    Evaluation.objects.update(visibility="public")
    TrainingRun.objects.update(visibility="public")


def test_pages_name_pictures_of_public_things_and_everybody_gets_them(evaluation: Evaluation) -> None:
    training = create_run(evaluation.created_by)
    pages = ("/environments/alice/tiny-env", f"/evaluations/{evaluation.pk}", f"/training/{training.pk}")
    owner = Client()
    owner.force_login(evaluation.created_by)
    Environment.objects.update(visibility="private")
    for path in pages:
        assert "og:image" not in owner.get(path).text or path.startswith("/evaluations")
        assert [client.get(f"{path}/preview.png").status_code for client in (owner, Client())] == [404, 404]
    _publish()
    for path in pages:
        picture = f"http://127.0.0.1:8000{path}/preview.png"
        assert f'<meta property="og:image" content="{picture}">' in Client().get(path).text
        answers = [client.get(f"{path}/preview.png") for client in (owner, Client())]
        assert [(one.status_code, one["Content-Type"], one["Cache-Control"]) for one in answers] == [
            (200, "image/png", "public, max-age=600")
        ] * 2
        assert answers[0].content == answers[1].content
        assert _size(answers[0].content) == (WIDTH, HEIGHT)


def test_a_picture_is_drawn_once_for_its_content(evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Preview] = []
    kept = lru_cache(lambda preview: drawn.append(preview) or draw(preview))
    monkeypatch.setattr(previews, "_kept", kept)
    _publish()

    def ask(**headers: Any) -> Any:
        return Client().get(f"/evaluations/{evaluation.pk}/preview.png", headers=headers)

    first, second = ask(), ask()
    assert (first.content == second.content, len(drawn)) == (True, 1)
    assert ask(if_none_match=first["ETag"]).status_code == 304
    assert (drawn[0].title, drawn[0].figure[:5]) == ("alice/tiny-env on alice/stub", "0.750")
    store(evaluation, make_records((), (), (0.0, 0.0)))
    changed = ask(if_none_match=first["ETag"])
    assert (changed.status_code, changed["ETag"] == first["ETag"], len(drawn)) == (200, False, 2)
