"""infra/nginx.conf by nginx itself: it keeps index pages that everybody may see for a second, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import httpx
import pytest

from tests.fakes.nginx import PROGRAM, nginx
from tests.infra.test_proxy import free_port

pytestmark = pytest.mark.skipif(PROGRAM is None, reason="nginx is not installed here")
PAGE = "/index/alice/simple/page-"


class Hub(BaseHTTPRequestHandler):
    """Answers as the index does: the number of the request, kept by a proxy where nobody has signed in."""

    asked: list[str] = []

    def do_GET(self) -> None:
        self.asked.append(self.headers.get("If-None-Match", ""))
        private = self.headers.get("Authorization") or self.headers.get("Cookie") or not self.path.startswith(PAGE)
        same = not private and self.headers.get("If-None-Match") == '"same"'
        self.send_response(304 if same else 200)
        self.send_header("ETag", '"same"')
        self.send_header("Vary", "Accept, Authorization, Cookie")
        if not private:
            self.send_header("X-Accel-Expires", "1")
        self.send_header("Cache-Control", "private, no-cache")
        body = b"" if same else str(len(self.asked)).encode()
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    port = free_port()
    with ThreadingHTTPServer(("127.0.0.1", 0), Hub) as hub:
        Thread(target=hub.serve_forever, daemon=True).start()
        with nginx(tmp_path_factory.mktemp("nginx"), [hub.server_port], port, free_port()):
            yield f"http://127.0.0.1:{port}"
        hub.shutdown()


def get(url: str, path: str, **headers: str) -> httpx.Response:
    return httpx.get(f"{url}{path}", headers=headers, trust_env=False)


def test_a_public_page_is_asked_for_once_a_second_and_looked_at_again_after_it(url: str) -> None:
    path, before = f"{PAGE}first/", len(Hub.asked)
    pages = [get(url, path) for _ in range(5)]
    assert len(Hub.asked) - before <= 2  # a second may end in between
    assert {page.headers["Cache-Control"] for page in pages} == {"private, no-cache"}
    assert all("X-Accel-Expires" not in page.headers for page in pages)
    time.sleep(2)
    before = len(Hub.asked)
    get(url, path)
    assert Hub.asked[before:] == ['"same"']


@pytest.mark.parametrize("headers", [{"Authorization": "Basic YTpi"}, {"Cookie": "sessionid=1"}])
def test_who_has_signed_in_is_always_answered_by_the_hub(url: str, headers: dict[str, str]) -> None:
    path = f"{PAGE}{'-'.join(headers)}/"
    get(url, path)
    mine = [get(url, path, **headers).text for _ in range(3)]
    assert len(set(mine)) == 3
    assert get(url, path).text not in mine


def test_each_form_of_a_page_is_kept_apart(url: str) -> None:
    forms = ("text/html", "application/vnd.pypi.simple.v1+json")
    assert len({get(url, f"{PAGE}forms/", Accept=form).text for form in forms}) == 2


def test_other_answers_are_not_kept(url: str) -> None:
    assert len({get(url, "/api/v1/environments").text for _ in range(3)}) == 3
    assert len({get(url, "/index/alice/simple/private/").text for _ in range(3)}) == 3
