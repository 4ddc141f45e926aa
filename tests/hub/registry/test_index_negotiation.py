"""The Accept header decides the form of an index page, q-values included."""

import pytest

from hub.registry.index.negotiation import Form, choose_form

PIP = (
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html; q=0.1, text/html; q=0.01"  # pip 22.2 on
)
UV = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.01"


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        (PIP, Form.JSON),
        (UV, Form.JSON),
        ("", Form.PLAIN_HTML),
        ("*/*", Form.PLAIN_HTML),
        ("text/*", Form.PLAIN_HTML),
        ("text/html,application/xhtml+xml,*/*;q=0.8", Form.PLAIN_HTML),
        ("application/vnd.pypi.simple.v1+html", Form.HTML),
        ("application/vnd.pypi.simple.latest+json", Form.JSON),
        ("application/vnd.pypi.simple.v1+json;q=0.2, text/html;q=0.9", Form.PLAIN_HTML),
        ("text/html;q=0, application/*", Form.HTML),
        ("application/json", None),
        ("text/html;q=0", None),
        ("text/html;q=nonsense", None),
    ],
)
def test_the_best_acceptable_form_is_chosen(accept: str, form: Form | None) -> None:
    assert choose_form(accept) is form
