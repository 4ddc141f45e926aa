"""Requests through the handler, to views of this module."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any, cast

import httpx
import pytest
from django.db import connection
from django.http import HttpRequest, HttpResponse
from django.test import override_settings
from django.urls import path
from django.utils.deprecation import MiddlewareMixin

from hub.core.requests.handler import ThreadedHandler

released = threading.Event()
opened: list[Any] = []  # connections that requests had; held, so that none has the place of another


class Noting(MiddlewareMixin):
    """A middleware of two halves, as most of Django's."""

    def process_request(self, request: HttpRequest) -> None:
        request.META["thread"] = threading.get_ident()

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        response["threads"] = f"{request.META['thread']} {response.content.decode()} {threading.get_ident()}"
        return response


def thread(request: HttpRequest) -> HttpResponse:
    return HttpResponse(str(threading.get_ident()))


async def loop(request: HttpRequest) -> HttpResponse:
    return HttpResponse(str(threading.get_ident()))


def database(request: HttpRequest) -> HttpResponse:
    connection.ensure_connection()
    opened.append(connection.connection)
    return HttpResponse("")


def waiting(request: HttpRequest) -> HttpResponse:
    return HttpResponse(str(released.wait(20)))


def releasing(request: HttpRequest) -> HttpResponse:
    released.set()
    return HttpResponse("")


def broken(request: HttpRequest) -> HttpResponse:
    raise RuntimeError("broken")


urlpatterns = [path(view.__name__, view) for view in (thread, loop, database, waiting, releasing, broken)]


@pytest.fixture
def hub() -> Iterator[httpx.AsyncClient]:
    with override_settings(ROOT_URLCONF=__name__, MIDDLEWARE=[f"{__name__}.Noting"], ALLOWED_HOSTS=["hub"]):
        transport = httpx.ASGITransport(cast(Any, ThreadedHandler()), raise_app_exceptions=False)
        yield httpx.AsyncClient(transport=transport, base_url="http://hub")


async def test_middleware_and_view_share_a_thread_that_is_not_the_event_loops(hub: httpx.AsyncClient) -> None:
    before, view, after = (await hub.get("/thread")).headers["threads"].split()
    assert before == view == after != str(threading.get_ident())


async def test_an_asynchronous_view_runs_on_the_event_loop(hub: httpx.AsyncClient) -> None:
    assert (await hub.get("/loop")).text == str(threading.get_ident())


@pytest.mark.django_db(transaction=True)
async def test_the_next_request_finds_the_database_connection_open(hub: httpx.AsyncClient) -> None:
    if connection.settings_dict["CONN_MAX_AGE"] == 0:
        pytest.skip("on Postgres a request has its own, or one of the pool")
    opened.clear()
    for _ in range(5):
        await hub.get("/database")
    assert len({id(known) for known in opened}) < len(opened)  # a thread may be late to say that it is free


async def test_a_slow_request_does_not_hold_up_the_next(hub: httpx.AsyncClient) -> None:
    released.clear()
    slow = asyncio.create_task(hub.get("/waiting"))
    await asyncio.sleep(0.1)
    await hub.get("/releasing")
    assert (await slow).text == "True"


async def test_an_exception_in_a_view_is_an_error_page(hub: httpx.AsyncClient) -> None:
    assert (await hub.get("/broken")).status_code == 500
