"""Requests whose sender has gone are no fault of the hub's."""

from __future__ import annotations

import io

import pytest
from django.contrib.auth.models import Permission
from django.core.handlers.asgi import ASGIRequest
from envhub.protocol.runs import Heartbeat
from rest_framework.parsers import JSONParser
from rest_framework.request import Request

from hub.core.errors import Invalid
from hub.core.http import as_hub_error, parse


def test_a_body_that_was_closed_before_it_was_read_is_no_bug() -> None:
    body = io.BytesIO(b"{}")
    headers = [(b"content-type", b"application/json"), (b"content-length", b"2")]
    scope = {"type": "http", "method": "POST", "path": "/x", "query_string": b"", "headers": headers}
    request = Request(ASGIRequest(scope, body), parsers=[JSONParser()])
    body.close()  # as Django does when the connection ends while a thread still waits for the database
    with pytest.raises(Invalid, match="connection closed"):
        parse(request, Heartbeat)


def test_what_was_deleted_during_the_request_is_not_found() -> None:
    mapped = as_hub_error(Permission.DoesNotExist("gone"))
    assert mapped is not None
    assert (mapped.status, "just been deleted" in mapped.message) == (404, True)
