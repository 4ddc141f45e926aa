"""A network that is away is found in a second, remembered for a minute, and said once."""

from __future__ import annotations

import socket
import threading
import time
from uuid import uuid4

import pytest
from django.conf import settings
from envhub.protocol.registry.needs import Need, NeedKind

from hub.core import needs
from hub.data import reach, upstream
from hub.data.services import NotKept, resolve

pytestmark = pytest.mark.django_db


def slow(host: str, port: int) -> list[str]:
    time.sleep(5)
    return ["127.0.0.1"]


def test_a_resolver_that_waits_costs_a_second() -> None:
    began = time.monotonic()
    assert not reach.is_reachable("https://huggingface.test", slow)
    assert not reach.is_reachable("https://huggingface.test/else", slow)
    assert 0.9 < time.monotonic() - began < 2


def test_it_is_asked_again_after_a_minute_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    asked: list[str] = []

    def nobody(host: str, port: int) -> list[str]:
        asked.append(host)
        raise OSError

    for now in (0.0, 30.0, 59.0, 61.0, 122.0):
        assert not reach.is_reachable("https://hub.test", nobody, now=lambda now=now: now)  # type: ignore[misc]
    assert len(asked) == 3
    assert len(caplog.records) == 1


def test_who_listens_is_reached_and_the_next_loss_is_said_again(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        assert reach.is_reachable(url)
        assert not reach.is_away(url)
    reach.found_away(url)
    assert reach.is_away(url)
    assert not reach.is_reachable(url)
    assert len(caplog.records) == 1


def test_behind_a_proxy_the_proxy_is_what_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "proxy.test:3128")
    monkeypatch.setenv("no_proxy", "inside.test")
    assert reach.place_of(reach.by_proxy("https://huggingface.co")) == ("proxy.test", 3128)
    assert reach.by_proxy("https://inside.test/x") == "https://inside.test/x"


def test_a_data_set_out_of_reach_is_not_kept_rather_than_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setattr(settings, "HUB", settings.HUB.model_copy(update={"huggingface_url": url}))
    need = Need(kind=NeedKind.DATA_SET, name="openai/gsm8k")
    assert needs.can_have(need, uuid4())
    for name in ("openai/gsm8k", "openai/gsm8k", "a/b"):
        with pytest.raises(NotKept, match="the hub could not reach") as away:
            resolve(kind="dataset", repository=name, revision="main")
        assert away.value.hint == f"hub data add {name} DIR   (administrators)"
    assert not needs.can_have(need, uuid4())
    assert len(caplog.records) == 1


def refuse_one(proxy: socket.socket) -> None:
    """A proxy's answer to CONNECT."""
    for _ in range(2):  # the first only looks whether somebody listens
        connection = proxy.accept()[0]
        with connection:
            if connection.recv(1024):
                connection.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")


def test_a_proxy_that_lets_nobody_through_is_no_way_either(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        thread = threading.Thread(target=refuse_one, args=(proxy,), daemon=True)
        thread.start()
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        monkeypatch.setattr(settings, "HUB", settings.HUB.model_copy(update={"huggingface_url": "https://hf.test"}))
        with pytest.raises(NotKept, match=r"could not reach https://hf\.test"):
            resolve(kind="dataset", repository="a/b", revision="main")
        assert not upstream.may_fetch("a/b")
        thread.join(5)
