"""Pages are compressed, and nothing else is."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

import pytest
from django.http import HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.test import Client, RequestFactory

from hub.core.requests.compression import CompressedPages

BROWSER = {"Accept": "text/html,*/*;q=0.8"}
TAKES = BROWSER | {"Accept-Encoding": "gzip"}
LONG = "<p>text</p>" * 100


def answered(rf: RequestFactory, response: HttpResponseBase) -> HttpResponseBase:
    return CompressedPages(lambda request: response)(rf.get("/", headers=TAKES))


@pytest.mark.django_db
def test_a_page_is_sent_gzipped_to_who_takes_it() -> None:
    plain, small = Client().get("/login", headers=BROWSER), Client().get("/login", headers=TAKES)
    assert small["Content-Encoding"] == "gzip"
    assert b"</html>" in gzip.decompress(small.content)
    assert "Content-Encoding" not in plain
    assert "Accept-Encoding" in plain["Vary"]


def test_equal_pages_differ_in_length(rf: RequestFactory) -> None:
    lengths = {int(answered(rf, HttpResponse(LONG))["Content-Length"]) for _ in range(40)}
    assert len(lengths) > 1


@pytest.mark.parametrize("kind", ["application/json", "application/octet-stream", "text/event-stream", "text/plain"])
def test_what_is_no_page_is_sent_as_it_is(rf: RequestFactory, kind: str) -> None:
    assert "Content-Encoding" not in answered(rf, HttpResponse(LONG, content_type=kind))


def test_who_does_not_ask_for_html_gets_it_as_it_is(rf: RequestFactory) -> None:
    request = rf.get("/", headers={"Accept": "*/*", "Accept-Encoding": "gzip"})
    assert not CompressedPages(lambda request: HttpResponse(LONG))(request).has_header("Content-Encoding")


def test_a_stream_is_not_held_back(rf: RequestFactory) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"first"
        pytest.fail("it waits for a second piece")

    response = answered(rf, StreamingHttpResponse(pieces(), content_type="text/html"))
    assert isinstance(response, StreamingHttpResponse)
    assert next(iter(response)) == b"first"


@pytest.mark.django_db
def test_static_files_keep_their_own_answer() -> None:
    response = Client().get("/static/hub/app.css", headers=TAKES)
    assert response.status_code == 200
    assert response.streaming
    assert "Content-Encoding" not in response
