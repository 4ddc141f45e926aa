"""Whatever comes from a box is answered in JSON, and never as a mistake of ours."""

from __future__ import annotations

import struct

import pytest

from tests.workers.broker.prime.service import RPC, Client
from workers.broker import bodies
from workers.broker.prime.protobuf import blob_field

DEEP = b"[" * 500_000
BODIES = [
    b"",
    b"{",
    b"null",
    b"[]",
    DEEP,
    b'{"jobs": ' + DEEP,
    b"\xff\xfe",
    b'{"name": 1e999}',
    b'"' + b"x" * 900_000 + b'"',
]
ROUTES = [
    ("POST", "/api/v1/sandbox"),
    ("DELETE", "/api/v1/sandbox"),
    ("POST", "/api/v1/sandbox/status:batchGet"),
    ("POST", "/api/v1/sandbox/background-jobs/status:batchGet"),
    ("POST", "/api/v1/sandbox/ID/expose"),
    ("PUT", "/api/v1/sandbox/ID/egress-policy"),
    ("POST", "/api/v1/tunnel"),
    ("POST", "/gateway/box/ID/exec"),
    ("POST", "/gateway/box/ID/upload?path=/x"),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_bodies_that_are_no_request_are_refused(
    client: Client, method: str, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "JSON_LIMIT", 800_000)
    held = await client.create()
    for body in BODIES:
        status, told = await client.call(method, path.replace("ID", held.id), data=body)
        assert 400 <= status < 500, (status, body[:20])
        assert isinstance(told["detail"], str)


@pytest.mark.parametrize(
    "framed",
    [
        b"",
        b"\0",
        struct.pack(">BI", 0, 2**31),
        struct.pack(">BI", 1, 3) + b"abc",
        struct.pack(">BI", 0, 3) + b"\x0a\xff\xff",
        struct.pack(">BI", 0, 0),
        struct.pack(">BI", 0, 4) + blob_field(1, b"\x0a\xff"),
    ],
)
async def test_frames_that_are_no_message_are_refused(client: Client, framed: bytes) -> None:
    held = await client.create()
    url = f"{client.address}/prime/gateway/box/{held.id}/{RPC}/Start"
    async with client.http.post(url, data=framed, headers={"Content-Type": "application/connect+proto"}) as answer:
        body = await answer.read()
    assert (answer.status, body[0]) == (200, 2)
    assert b'"code": "invalid_argument"' in body or b'"code": "unimplemented"' in body


@pytest.mark.parametrize(
    "path",
    [
        "/read-file",
        "/read-file?path=",
        "/read-file?path=%00",
        "/read-file?path=/x&offset=x",
        "/read-file?path=/x&length=9" + "9" * 99,
        "/download?path=/" + "x" * 5000,
        "/nothing",
        "/../other/read-file?path=/x",
    ],
)
async def test_queries_that_mean_nothing_are_refused(client: Client, path: str) -> None:
    held = await client.create()
    status, told = await client.call("GET", f"/gateway/box/{held.id}{path}")
    assert 400 <= status < 503
    assert status != 500
    assert told["detail"]


@pytest.mark.parametrize(
    "path", ["/images/build", "/sandbox/networks", "/sandbox/ID/ssh-session", "/sandbox/volumes/v"]
)
async def test_what_this_hub_lacks_names_what_it_has(client: Client, path: str) -> None:
    status, told = await client.call("POST", f"/api/v1{path}", json={})
    assert status == 501
    assert ":" in told["detail"]
