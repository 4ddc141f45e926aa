"""API of the caller's notifications."""

from __future__ import annotations

from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from envhub.protocol.accounts.notices import NoticeChoices, NoticeChoicesView, NoticeView
from envhub.protocol.accounts.users import Scope
from envhub.protocol.base import Page
from rest_framework.decorators import api_view
from rest_framework.request import Request

from hub.accounts.permissions import require_account
from hub.core.http import answer, answer_page, parse
from hub.core.ids import GivenId
from hub.core.pagination import newest_first
from hub.core.requests.parameters import PAGE, query
from hub.notices.queries import choices_of, get_notice, notices_of
from hub.notices.services import choose_notices, mark_read
from hub.notices.wire import choices_view, notice_view


@extend_schema(parameters=query(*PAGE), responses=Page[NoticeView])
@api_view(["GET"])
def notices(request: Request) -> HttpResponse:
    """List the caller's notifications, newest first."""
    user = require_account(request, Scope.READ)
    return answer_page(*newest_first(notices_of(user), request), notice_view)


@extend_schema(request=None, responses={204: None})
@api_view(["POST"])
def read_all(request: Request) -> HttpResponse:
    """Mark all notifications as read."""
    mark_read(user=require_account(request, Scope.WRITE))
    return HttpResponse(status=204)


@extend_schema(request=None, responses={204: None})
@api_view(["POST"])
def read_one(request: Request, notice_id: GivenId) -> HttpResponse:
    """Mark a notification as read."""
    user = require_account(request, Scope.WRITE)
    mark_read(user=user, notice=get_notice(user, notice_id))
    return HttpResponse(status=204)


@extend_schema(methods=["GET"], responses=NoticeChoicesView)
@extend_schema(methods=["PUT"], request=NoticeChoices, responses=NoticeChoicesView)
@api_view(["GET", "PUT"])
def choices(request: Request) -> HttpResponse:
    """Return or change which notifications the caller receives."""
    if request.method == "PUT":
        user = require_account(request, Scope.WRITE)
        return answer(choices_view(choose_notices(user=user, choices=parse(request, NoticeChoices))))
    return answer(choices_view(choices_of(require_account(request, Scope.READ))))
