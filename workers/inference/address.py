"""An engine's address, and the key that it requires: made at its start and given only to those who may call it.

Loopback is no protection: every user of the host reaches it, and the hub's own gateway calls addresses that its users
register. So an engine refuses every route without the key, including health and control routes.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from envhub.protocol.models.catalog import EndpointKind, TargetVariant

KEY_VARIABLE = "VLLM_API_KEY"  # vLLM reads it itself; the torch engine and our guard in vLLM read it, too


@dataclass(frozen=True)
class EngineAddress:
    """The address and key of an engine. `base_url` is "http://127.0.0.1:PORT/v1"."""

    base_url: str
    key: str = field(repr=False)
    gpus: int = 0  # how many of the host's it holds

    @property
    def root(self) -> str:
        """The URL below which the routes outside of /v1 are."""
        return self.base_url.removesuffix("/v1")

    @property
    def headers(self) -> dict[str, str]:
        """The headers that every call must have."""
        return {"Authorization": f"Bearer {self.key}"}

    def variant(self, model: str, *, timeout_s: float, max_retries: int = 3) -> TargetVariant:
        """Return the engine as an endpoint for `model`."""
        return TargetVariant(
            kind=EndpointKind.OPENAI,
            base_url=self.base_url,
            model=model,
            api_key=self.key,
            timeout_s=timeout_s,
            max_retries=max_retries,
        )


def new_key() -> str:
    """Return a key for one start of one engine. Pass it by environment: everybody can read command lines (`ps`)."""
    return secrets.token_urlsafe(32)
