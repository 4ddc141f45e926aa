"""What only a browser shows of the reader: what a key unfolds, and code that is coloured when it is seen."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client
from envhub.protocol.base import JsonObject
from playwright.sync_api import expect

from tests.factories.accounts import make_user
from tests.factories.evals import create_hosted, make_record, start, store
from tests.hub.web.browser import LookAt

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
CODE = "import os\n\ndef add(a, b):\n    return a + b\n" * 40


def called(number: int, code: str) -> list[JsonObject]:
    call = {"id": f"c{number}", "function": {"name": "python", "arguments": json.dumps({"code": code})}}
    return [
        {"role": "assistant", "content": f"step {number}", "tool_calls": [call]},
        {"role": "tool", "content": "done", "tool_call_id": f"c{number}"},
    ]


def test_e_unfolds_what_is_visible_alone_and_its_code_gets_its_colours(live_server: Any, look_at: LookAt) -> None:
    ada, client = make_user("ada"), Client()
    client.force_login(ada)
    found = create_hosted(ada)
    start(found)
    store(found, [make_record(completion=[message for n in range(30) for message in called(n, CODE)])])
    session = client.cookies["sessionid"].value
    with look_at(live_server.url, session=session) as look:
        look.open(f"/evaluations/{found.pk}/rollouts/0/0")
        folds = look.page.locator("#transcript details")
        expect(folds).to_have_count(30)
        look.page.keyboard.press("e")
        unfolded = look.page.locator("#transcript details[open]")
        assert 0 < unfolded.count() < 15
        expect(unfolded.first.locator(".code-word").first).to_have_text("import")
        assert folds.last.get_attribute("open") is None
        assert look.page.locator("#transcript details:not([open]) .code-word").count() == 0
        assert (look.barriers(), look.complaints) == ([], [])
        look.page.evaluate("scrollTo(0, 0)")
        look.page.keyboard.press("e")
        expect(folds.first).not_to_have_attribute("open", "")
