"""Words and error codes on pages lead to what the documentation says of them."""

from __future__ import annotations

import pytest

from hub.web.documentation.documents import explanation
from hub.web.templatetags.hub_help import error_code, error_section
from infra.reference.errors import causes


def test_a_documented_code_is_a_link_and_another_is_text() -> None:
    assert error_code("load_failed") == '<a href="/docs/errors#load_failed">load_failed</a>'
    assert error_code("<b>") == "<b>"  # a page escapes it


@pytest.mark.parametrize("code", causes())
def test_what_somebody_wrote_of_a_code_is_what_its_section_begins_with(code: str) -> None:
    written = causes()[code].replace("`", "")
    assert explanation(error_section(code))[:40] == written[:40]
