"""How the OpenAPI schema names operations and describes the hub's credentials."""

from __future__ import annotations

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema


class HubSchema(AutoSchema):
    """Names operations after their view functions: `run_list`, `tokens_post`."""

    def get_operation_id(self) -> str:
        """The function's name, with the method where it serves several."""
        methods = {method.lower() for method in self.view.allowed_methods} - {"options", "head"}
        name = str(self.view.__class__.__name__)
        return name if len(methods) == 1 else f"{name}_{self.method.lower()}"


class ApiTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # drf-spectacular is partly typed
    """`hub_` tokens."""

    target_class = "hub.accounts.authentication.TokenAuthentication"
    name = "api-token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        """OpenAPI's security scheme."""
        return {"type": "http", "scheme": "bearer", "description": "An API token, `hub_...`"}


class BasicTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # drf-spectacular is partly typed
    """`hub_` tokens for package installers."""

    target_class = "hub.accounts.authentication.BasicTokenAuthentication"
    name = "api-token-as-password"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        """OpenAPI's security scheme."""
        return {"type": "http", "scheme": "basic", "description": "Any user name, an API token as the password"}


class WorkerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # drf-spectacular is partly typed
    """`hubw_` and `hubr_` tokens."""

    target_class = "hub.runs.authentication.WorkerAuthentication"
    name = "worker-or-run-token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        """OpenAPI's security scheme."""
        return {"type": "http", "scheme": "bearer", "description": "A worker token `hubw_...` or run token `hubr_...`"}
