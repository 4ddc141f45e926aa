"""Models for tests."""

from __future__ import annotations

from envhub.protocol.models.catalog import EndpointVariant, ModelRequest
from envhub.protocol.visibility import Visibility

from hub.accounts.models import User
from hub.catalog.models import Model
from hub.catalog.services import register_endpoint


def endpoint_request(
    name: str = "stub", base_url: str = "https://models.example/v1", **changes: object
) -> ModelRequest:
    """A request with one variant, untested; `changes` are fields of the variant."""
    variant = EndpointVariant.model_validate({"base_url": base_url, "model": "m", "api_key": "sk-secret"} | changes)
    return ModelRequest(name=name, variants=(variant,), test=False)


def create_endpoint(user: User, name: str = "stub", *, public: bool = False, **changes: object) -> Model:
    """A saved endpoint model of the user's own namespace."""
    request = endpoint_request(name, **changes)  # type: ignore[arg-type]
    visibility = Visibility.PUBLIC if public else Visibility.PRIVATE
    return register_endpoint(user=user, owner=user.owner, request=request.model_copy(update={"visibility": visibility}))
