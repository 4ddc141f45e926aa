"""Reads API requests and writes responses: pydantic in, pydantic out, and every error as an ErrorBody."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from django.core.exceptions import ObjectDoesNotExist, PermissionDenied
from django.db import DataError, InterfaceError, OperationalError
from django.db.models import ProtectedError
from django.http import Http404, HttpResponse
from envhub.protocol.base import ErrorBody, ErrorDetail, Page
from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticSerializationError
from rest_framework import exceptions as drf
from rest_framework.request import Request
from rest_framework.views import set_rollback

from hub.core.database_json import storable, storable_text
from hub.core.disk_full import DiskFull, is_disk_full
from hub.core.errors import Conflict, HubError, Invalid, NotAllowed, NotFound, Unavailable

logger = logging.getLogger(__name__)
Model = TypeVar("Model", bound=BaseModel)
Row = TypeVar("Row")
_AnyPage = Page[Any]  # a reference, because pydantic drops unused classes and takes a millisecond to recreate them

_DRF_CODES = {
    400: "bad_request",
    401: "not_authenticated",
    403: "not_allowed",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    415: "unsupported_media_type",
    429: "too_many_requests",
}


def validate(model: type[Model], data: object) -> Model:
    """Validate `data` as `model`. Raises Invalid, whose `fields` map dotted paths to what is wrong there."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        fields = {".".join(str(part) for part in item["loc"]) or "body": item["msg"] for item in error.errors()}
        where = ", ".join(sorted(fields)[:5])
        raise Invalid(f"the request is not valid: {where}", fields=fields) from error


def parse(request: Request, model: type[Model]) -> Model:
    """Parse the request's JSON body as `model`. Raises Invalid; a body that is not JSON is DRF's ParseError (400)."""
    try:
        data = request.data
    except ValueError as error:  # the client has disconnected, and Django has closed the body
        raise Invalid("the connection closed before the body was received", code="connection_ended") from error
    if not isinstance(data, Mapping):
        raise Invalid("the body must be a JSON object", fields={"body": "not an object"})
    return validate(model, dict(data.items()))


def parse_query(request: Request, model: type[Model]) -> Model:
    """Parse the query parameters as `model`; the last of a repeated parameter counts. Raises Invalid."""
    return validate(model, request.query_params.dict())


def answer(model: BaseModel, status: int = 200) -> HttpResponse:
    """Return a JSON response with one wire type."""
    return HttpResponse(as_json(model), status=status, content_type="application/json")


def as_json(model: BaseModel) -> str:
    """Encode as JSON that every reader accepts, replacing lone surrogates in texts of packages."""
    try:
        return model.model_dump_json()
    except PydanticSerializationError:
        return json.dumps(storable(model.model_dump(mode="json")))


def answer_page(rows: list[Row], next_url: str | None, view: Callable[[Row], Model]) -> HttpResponse:
    """Return a Page with `view(row)` for each row."""
    return answer(_AnyPage(items=tuple(view(row) for row in rows), next=next_url))


def error_answer(error: HubError) -> HttpResponse:
    """Return `error` as an ErrorBody with its status."""
    message = storable_text(error.message)  # it may repeat input
    detail = ErrorDetail(code=error.code, message=message, hint=error.hint, fields=storable(error.fields))
    response = answer(ErrorBody(error=detail), status=error.status)
    if error.status == 401:
        response["WWW-Authenticate"] = 'Bearer realm="hub"'
    if error.status == 503:
        response["Retry-After"] = "1"
    return response


def as_hub_error(error: Exception) -> HubError | None:
    """Return the HubError that corresponds to `error`, or None for a bug."""
    if isinstance(error, HubError):
        return error
    # It was there when the request began; a missing related object, which is also an AttributeError, is a bug.
    if isinstance(error, ObjectDoesNotExist) and not isinstance(error, AttributeError):
        logger.warning("deleted meanwhile: %s", error, exc_info=error)
        return NotFound("this has just been deleted", hint="reload the list that it was in")
    if isinstance(error, Http404):
        return NotFound("nothing exists at this address")
    if isinstance(error, PermissionDenied):
        return NotAllowed("you may not do this")
    if isinstance(error, ProtectedError):
        return Conflict("other objects still refer to this", code="in_use", hint="delete them first")
    if isinstance(error, OSError | OperationalError) and is_disk_full(error):
        logger.error("no room: %s", error)
        return DiskFull()
    if isinstance(error, OperationalError | InterfaceError):  # gone, restarting, out of connections, locked
        logger.warning("the database does not answer: %s", error)
        return Unavailable("the database is not responding", code="database_unavailable", hint="try again in a moment")
    # Input with a NUL, half a character, or a number out of range.
    if isinstance(error, DataError | UnicodeEncodeError):
        logger.warning("the database refused a value: %s", error)
        return Invalid(
            "a value in the request cannot be stored",
            code="unstorable",
            hint="remove NUL characters and unpaired surrogates",
        )
    if isinstance(error, drf.APIException):
        mapped = HubError(_drf_message(error), code=_DRF_CODES.get(error.status_code))
        mapped.status = error.status_code
        return mapped
    return None


def _drf_message(error: drf.APIException) -> str:
    return str(error.detail) if isinstance(error.detail, str) else str(error.default_detail)


def handle_error(error: Exception, context: Mapping[str, Any]) -> HttpResponse | None:
    """Handle DRF's exceptions. None (for a bug) passes the error on to Django's handler500."""
    mapped = as_hub_error(error)
    if mapped is None:
        return None
    set_rollback()
    response = error_answer(mapped)
    retry_after = getattr(error, "retry_after", None) or getattr(error, "wait", None)
    if retry_after:
        response["Retry-After"] = str(int(retry_after) + 1)
    return response
