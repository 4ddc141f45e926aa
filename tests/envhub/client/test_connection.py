from __future__ import annotations

import hashlib
import json
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from envhub.client import HubClient
from envhub.client.blobs import LocalBlob
from envhub.client.connection import Retry
from envhub.errors import (
    ApiError,
    Conflict,
    ConnectionFailed,
    EnvhubError,
    Invalid,
    NotAuthenticated,
    NotFound,
    RateLimited,
    ServerError,
    UsageError,
)
from envhub.protocol.accounts.users import TokenRequest
from envhub.protocol.base import Upload
from envhub.protocol.models.catalog import EndpointVariant, ModelRequest

ME = {"user": "alice", "owners": ["alice"], "scopes": ["read"]}
Handler = Callable[[httpx.Request], httpx.Response]


class Server:
    """A scripted server: answers in turn, the last one for ever."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []
        self.waits: list[float] = []
        self.told: list[str] = []
        self.retry = Retry(sleep=self.waits.append, notice=self.told.append)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        request.read()
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def client(self, token: str | None = "hub_secret") -> HubClient:
        return HubClient("http://hub.test", token, httpx.MockTransport(self), self.retry)


def _error(status: int, code: str = "some_code") -> httpx.Response:
    body = {"error": {"code": code, "message": "what", "hint": "do this", "fields": {"a.b": "bad"}}}
    return httpx.Response(status, json=body)


class Breaking(httpx.SyncByteStream):
    """Half an answer."""

    def __iter__(self) -> Iterator[bytes]:
        yield b"half"
        raise httpx.ReadError("the hub went away")


@pytest.mark.parametrize("kind", ["evaluations", "training"])
def test_an_export_that_breaks_off_leaves_the_file_of_before(tmp_path: Path, kind: str) -> None:
    breaking = [httpx.Response(200, stream=Breaking()) for _ in range(5)]
    server = Server(*breaking, httpx.Response(200, content=b"new"))
    client, target = server.client(), tmp_path / "all.jsonl"
    export = client.evaluations.export if kind == "evaluations" else client.training.export
    target.write_bytes(b"whole")
    with pytest.raises(ConnectionFailed):
        export("some-id", target, format="jsonl")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("all.jsonl", b"whole")]
    export("some-id", target, format="jsonl")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("all.jsonl", b"new")]


def test_a_download_that_breaks_off_is_begun_again(tmp_path: Path) -> None:
    server = Server(httpx.Response(200, stream=Breaking()), _error(503), httpx.Response(200, content=b"whole"))
    server.client().evaluations.export("some-id", tmp_path / "all.jsonl", format="jsonl")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("all.jsonl", b"whole")]
    assert len(server.told) == 2


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_reads_are_repeated_with_growing_waits(status: int) -> None:
    server = Server(_error(status), _error(status), httpx.Response(200, json=ME))
    assert server.client().accounts.me().user == "alice"
    assert server.waits == [0.5, 1.0]
    assert server.told == ["what", "what"]


def test_the_servers_own_wait_is_kept_to() -> None:
    server = Server(httpx.Response(429, headers={"Retry-After": "7"}), httpx.Response(200, json=ME))
    server.client().accounts.me()
    assert server.waits == [7.0]


def test_a_write_is_sent_again_after_the_pause_that_the_hub_asks_for() -> None:
    code = {"device_code": "d", "user_code": "u", "verification_uri": "v", "verification_uri_complete": "v",
            "expires_in": 600, "interval": 5}  # fmt: skip
    server = Server(httpx.Response(429, headers={"Retry-After": "7"}), httpx.Response(200, json=code))
    assert server.client().accounts.start_device_login().user_code == "u"
    assert (len(server.requests), server.waits) == (2, [7.0])
    server = Server(httpx.Response(429, headers={"Retry-After": "7"}), httpx.Response(200, json={"done": True}))
    server.client().sandboxes.write("some-id", 1, b"typed")
    assert [request.content for request in server.requests] == [b"typed", b"typed"]


def test_a_download_keeps_to_the_pause_that_the_hub_asks_for(tmp_path: Path) -> None:
    server = Server(httpx.Response(429, headers={"Retry-After": "7"}), httpx.Response(200, content=b"whole"))
    server.client().evaluations.export("some-id", tmp_path / "all.jsonl", format="jsonl")
    assert ((tmp_path / "all.jsonl").read_bytes(), server.waits) == (b"whole", [7.0])


def test_a_limit_of_an_hour_is_told_at_once() -> None:
    server = Server(httpx.Response(429, headers={"Retry-After": "3000"}))
    with pytest.raises(RateLimited):
        server.client().accounts.me()
    assert (len(server.requests), server.waits) == (1, [])


@pytest.mark.parametrize("first", [httpx.ReadTimeout("slow"), _error(504)], ids=repr)
def test_what_a_first_attempt_has_deleted_already_is_no_failure(first: httpx.Response | Exception) -> None:
    server = Server(first, _error(404))
    server.client().models.delete("alice/gpt")
    assert len(server.requests) == 2


@pytest.mark.parametrize("first", [httpx.ConnectError("refused"), httpx.Response(429)], ids=repr)
def test_what_was_never_there_to_delete_is_told(first: httpx.Response | Exception) -> None:
    with pytest.raises(NotFound):
        Server(first, _error(404)).client().models.delete("alice/gpt")


def test_a_write_that_may_have_arrived_is_not_repeated() -> None:
    for answer in (_error(503), httpx.ReadTimeout("slow")):
        server = Server(answer)
        with pytest.raises((ServerError, ConnectionFailed)):
            server.client().accounts.create_token(TokenRequest(name="x"))
        assert len(server.requests) == 1


def test_a_write_that_never_left_is_repeated() -> None:
    server = Server(httpx.ConnectError("refused"))
    with pytest.raises(ConnectionFailed) as caught:
        server.client().accounts.create_token(TokenRequest(name="x"))
    assert len(server.requests) == 5
    assert "HUB_URL" in caught.value.hint


@pytest.mark.parametrize(
    ("status", "kind"),
    [(401, NotAuthenticated), (404, NotFound), (409, Conflict), (422, Invalid), (429, RateLimited), (500, ServerError)],
)
def test_errors_carry_code_message_hint_and_fields(status: int, kind: type[EnvhubError]) -> None:
    with pytest.raises(kind) as caught:
        Server(_error(status)).client().accounts.me()
    error = caught.value
    assert (error.code, error.message, error.hint, error.fields) == ("some_code", "what", "do this", {"a.b": "bad"})


def test_errors_survive_a_process_boundary() -> None:
    with pytest.raises(NotFound) as caught:
        Server(_error(404)).client().accounts.me()
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), again.message, again.hint, again.status) == (NotFound, "what", "do this", 404)


def test_an_address_that_is_none_is_named() -> None:
    with pytest.raises(UsageError, match="'http://hub:port' is not the address of a hub"):
        HubClient("http://hub:port", None)


def test_a_page_that_is_no_hub_is_named() -> None:
    with pytest.raises(ServerError) as caught:
        Server(httpx.Response(200, text="<html>hello</html>")).client().accounts.me()
    assert caught.value.code == "bad_answer"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_no_success_and_names_the_address_to_use(status: int) -> None:
    server = Server(httpx.Response(status, headers={"Location": "https://hub.test/api/v1/tokens/t1"}))
    with pytest.raises(UsageError, match=r"http://hub.test redirects to https://hub.test$") as caught:
        server.client().accounts.revoke_token("t1")
    assert "`hub login https://hub.test`" in caught.value.hint
    assert len(server.requests) == 1


def test_a_device_login_and_a_download_name_the_redirected_address_too(tmp_path: Path) -> None:
    code = {"device_code": "d", "user_code": "u", "verification_uri": "v", "verification_uri_complete": "v",
            "expires_in": 600, "interval": 5}  # fmt: skip
    login = Server(httpx.Response(200, json=code), _moved("/api/v1/device/token")).client()
    with pytest.raises(UsageError, match=r"to https://hub.test$"):
        login.accounts.wait_for_device(login.accounts.start_device_login(), sleep=lambda _: None)
    export = Server(_moved("/api/v1/evaluations/some-id/export")).client().evaluations.export
    with pytest.raises(UsageError, match=r"to https://hub.test$"):
        export("some-id", tmp_path / "all.jsonl", format="jsonl")


def test_a_login_page_in_front_of_the_hub_is_named() -> None:
    answer = httpx.Response(302, headers={"Location": "https://sso.test/login?next=/api/v1/me"})
    with pytest.raises(UsageError, match=r"redirects to https://sso.test/login$") as caught:
        Server(answer).client().accounts.me()
    assert "let /api/ through" in caught.value.hint


def test_a_redirected_upload_has_not_arrived() -> None:
    upload = Upload(sha256="0" * 64, url="http://files.test/a", headers={})
    with pytest.raises(ApiError, match=r"files.test answered 301"):
        Server(httpx.Response(301, headers={"Location": "https://files.test/a"})).client().blobs.upload(
            upload, LocalBlob.of(b"x")
        )


def _moved(path: str) -> httpx.Response:
    return httpx.Response(308, headers={"Location": f"https://hub.test{path}"})


def test_lists_follow_their_pages() -> None:
    run = {
        "id": "r",
        "kind": "eval",
        "state": "queued",
        "owner": "a",
        "created_by": "a",
        "subject": "s",
        "subject_url": "",
        "queue": "eval",
        "attempt": 0,
        "created_at": "2026-01-01T00:00:00Z",
    }
    pages = [
        httpx.Response(200, json={"items": [run], "next": "https://elsewhere.test/api/v1/runs?before=1"}),
        httpx.Response(200, json={"items": [run], "next": None}),
    ]
    server = Server(*pages)
    assert len(list(server.client().runs.list())) == 2
    assert str(server.requests[1].url) == "http://hub.test/api/v1/runs?before=1"


def test_a_download_follows_a_redirect_without_the_token_and_checks_the_hash(tmp_path: Path) -> None:
    data = b"x" * 100_000
    moved = httpx.Response(302, headers={"Location": "https://storage.test/blob?signature=1"})
    server = Server(moved, httpx.Response(200, content=data))
    client = server.client()
    client.blobs.download("/environments/a/b/x", tmp_path / "file", hashlib.sha256(data).hexdigest())
    assert (tmp_path / "file").read_bytes() == data
    assert server.requests[0].headers["authorization"] == "Bearer hub_secret"
    assert "authorization" not in server.requests[1].headers


@pytest.mark.parametrize("ranges", [True, False])
def test_a_large_download_goes_on_where_it_broke_off(tmp_path: Path, ranges: bool) -> None:
    rest = httpx.Response(206, content=b" and whole") if ranges else httpx.Response(200, content=b"half and whole")
    server = Server(httpx.Response(200, stream=Breaking()), httpx.ConnectError("refused"), rest)
    seen: list[int] = []
    sha256 = hashlib.sha256(b"half and whole").hexdigest()
    server.client().blobs.download("https://storage.test/blob", tmp_path / "file", sha256, seen.append)
    assert (tmp_path / "file").read_bytes() == b"half and whole"
    assert [request.headers.get("range") for request in server.requests] == [None, "bytes=4-", "bytes=4-"]
    assert sum(seen) == len(b"half and whole")


def test_a_download_with_another_hash_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(EnvhubError, match="does not match the hub's hash"):
        Server(httpx.Response(200, content=b"evil")).client().blobs.download("/x", tmp_path / "file", "0" * 64)
    assert list(tmp_path.iterdir()) == []


def _run(state: str) -> httpx.Response:
    run = {
        "id": "r",
        "kind": "eval",
        "owner": "a",
        "created_by": "a",
        "subject": "s",
        "subject_url": "",
        "queue": "eval",
        "attempt": 0,
        "created_at": "2026-01-01T00:00:00Z",
    }
    return httpx.Response(200, json={**run, "state": state})


def test_a_run_is_watched_across_a_restart_of_the_hub() -> None:
    down = [httpx.ConnectError("refused") for _ in range(12)]
    running, done = _run("running"), _run("succeeded")
    server = Server(running, *down, done)
    states = [item.state for item in server.client().runs.watch("r", sleep=server.waits.append)]
    assert states == ["running", "succeeded"]


def test_a_long_run_is_asked_after_less_often() -> None:
    server = Server(*[_run("running")] * 100, _run("succeeded"))
    assert len(list(server.client().runs.watch("r", sleep=server.waits.append))) == 101
    assert (server.waits[:10], server.waits[-1]) == ([0.2] * 10, 1.5)


def test_a_log_is_followed_across_a_restart_of_the_hub() -> None:
    def page(text: str, offset: int, *, done: bool = False) -> httpx.Response:
        body = {"attempt": 1, "offset": offset, "next_offset": offset + len(text), "text": text, "done": done}
        return httpx.Response(200, json=body)

    away = [httpx.ConnectError("refused")] * 12
    server = Server(page("one ", 0), *away, page("two", 4), page("", 7, done=True))
    assert "".join(server.client().runs.follow_log("r", sleep=server.waits.append)) == "one two"


def test_a_name_is_quoted_in_a_path() -> None:
    server = Server(httpx.Response(204))
    server.client().models.delete("alice/gpt?x=1#2 %2F")
    assert server.requests[0].url.raw_path == b"/api/v1/models/alice/gpt%3Fx%3D1%232%20%252F"


def test_optional_fields_that_say_nothing_are_not_sent() -> None:
    server = Server(httpx.Response(200, json={}))
    variant = EndpointVariant(base_url="http://m.test/v1", model="m")
    with pytest.raises(EnvhubError):
        server.client().models.put("alice", ModelRequest(name="m", variants=(variant,)))
    with pytest.raises(EnvhubError):
        server.client().accounts.create_token(TokenRequest(name="x", expires_in_days=None))
    model, token = (json.loads(request.content) for request in server.requests)
    assert (model["name"], model.keys() & {"input_price", "output_price", "visibility"}) == ("m", set())
    assert token["expires_in_days"] is None  # for ever, where a year is the default
