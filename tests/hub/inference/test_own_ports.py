"""One user's attempt on another's private model: an endpoint that is the port of an engine of this hub."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from asgiref.sync import sync_to_async
from django.test import AsyncClient
from envhub.client.outside.own_processes import MARK

from hub.accounts.models import User
from hub.catalog.services import register_endpoint
from hub.core.errors import Invalid
from tests.factories.accounts import bearer, make_token, make_user
from tests.factories.catalog import create_endpoint, endpoint_request

pytestmark = pytest.mark.django_db(transaction=True)
ENGINE = """
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"choices": [], "secret": "of another user"}')
server = HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """An engine that would answer anybody, as if its key were known."""
    process = subprocess.Popen(
        [sys.executable, "-c", ENGINE], env={MARK: "1"}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdout is not None
    with process:
        yield int(process.stdout.readline())
        process.kill()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1", "2130706433", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0"])
async def test_the_gateway_does_not_call_it(port: int, host: str) -> None:
    def prepare() -> str:
        user: User = make_user("mallory")
        create_endpoint(user, base_url=f"http://{host}:{port}/v1", max_retries=0)
        return make_token(user)

    token = await sync_to_async(prepare)()
    content = json.dumps({"model": "mallory/stub", "messages": [{"role": "user", "content": "hi"}]})
    answer = await AsyncClient().post(
        "/inference/v1/chat/completions", content, content_type="application/json", headers=bearer(token)
    )
    assert (answer.status_code, json.loads(answer.content)["error"]["code"]) == (503, "endpoint_refused")


def test_the_test_of_a_new_endpoint_does_not_call_it(port: int) -> None:
    mallory = make_user("mallory")
    asked = endpoint_request(base_url=f"http://127.1:{port}/v1").model_copy(update={"test": True})
    with pytest.raises(Invalid, match="this hub itself"):
        register_endpoint(user=mallory, owner=mallory.owner, request=asked)
