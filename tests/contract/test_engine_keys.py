"""An engine's port as whoever shares the host finds it: no route answers without the key of this start."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from workers.inference.policy_engine import PolicyEngine

pytest.importorskip("torch")
pytestmark = pytest.mark.asyncio(loop_scope="package")
ROUTES = [
    *(("GET", path) for path in ("/health", "/v1/models", "/metrics", "/version", "/is_paused", "/openapi.json")),
    *(("GET", path) for path in ("/server_info?config_format=json", "/is_sleeping", "/ping", "/load", "/docs", "/")),
    *(("POST", path) for path in ("/v1/chat/completions", "/v1/completions", "/inference/v1/generate", "/invocations")),
    *(("POST", path) for path in ("/tokenize", "/detokenize", "/pooling", "/score", "/v1/load_lora_adapter")),
    *(("POST", path) for path in ("/v1/unload_lora_adapter", "/pause", "/resume", "/sleep", "/wake_up")),
    *(("POST", path) for path in ("/collective_rpc", "/reset_prefix_cache", "/abort_requests", "/no/such/route")),
    *(("OPTIONS", path) for path in ("/v1/chat/completions", "/pause")),
    *(("POST", path) for path in ("//pause", "/v1/../pause", "/PAUSE", "/pause/")),
]
STRANGERS: list[dict[str, str]] = [
    {},
    {"Authorization": "Bearer x"},
    {"Authorization": "Bearer \xe9"},
    {"x-api-key": "x", "Host": "localhost"},
]


async def test_no_route_answers_a_caller_without_the_key(engine: PolicyEngine) -> None:
    body = {"model": "policy", "prompt": "hi", "messages": [{"role": "user", "content": "hi"}]}
    async with httpx.AsyncClient(base_url=engine.address.root, timeout=30) as http:
        for method, path in ROUTES:
            for headers in STRANGERS:
                encoded = {name: value.encode("latin-1") for name, value in headers.items()}
                answer = await http.request(method, path, json=body, headers=encoded)
                assert answer.status_code == 401, (method, path, headers, answer.text[:200])
                assert engine.address.key not in answer.text


async def test_it_was_not_paused_and_serves_those_who_know_the_key(engine: PolicyEngine) -> None:
    assert "policy" in await engine.models()
    async with httpx.AsyncClient(headers=engine.address.headers, timeout=60) as http:
        asked: Any = {"model": "policy", "prompt": "hi", "max_tokens": 1}
        assert (await http.post(f"{engine.address.base_url}/completions", json=asked)).status_code == 200


async def test_its_key_is_in_no_command_line(engine: PolicyEngine) -> None:
    key = engine.address.key.encode()
    lines = readable_command_lines()
    assert lines
    assert not [line for line in lines if key in line]


def readable_command_lines() -> list[bytes]:
    """What `ps` shows to every user of the host."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):  # it has ended meanwhile
                found.append((entry / "cmdline").read_bytes())
    return found
