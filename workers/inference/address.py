"""Where an engine answers, and the key that it asks for: made at its start, told only to those who may call it.

Loopback is no protection. Every user of the host reaches it, and the hub's own gateway calls whatever addresses its
users register. So each engine refuses every route to callers without its key, health and control routes included.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from envhub.protocol.models.catalog import EndpointKind, TargetVariant

KEY_VARIABLE = "VLLM_API_KEY"  # vLLM reads it by itself; the torch engine and our guard in vLLM read the same


@dataclass(frozen=True)
class EngineAddress:
    """`base_url` is "http://127.0.0.1:PORT/v1"."""

    base_url: str
    key: str = field(repr=False)

    @property
    def root(self) -> str:
        """What the routes outside of /v1 are below."""
        return self.base_url.removesuffix("/v1")

    @property
    def headers(self) -> dict[str, str]:
        """What every call must carry."""
        return {"Authorization": f"Bearer {self.key}"}

    def variant(self, model: str, *, timeout_s: float, max_retries: int = 3) -> TargetVariant:
        """The engine as an endpoint for `model`."""
        return TargetVariant(
            kind=EndpointKind.OPENAI,
            base_url=self.base_url,
            model=model,
            api_key=self.key,
            timeout_s=timeout_s,
            max_retries=max_retries,
        )


def new_key() -> str:
    """A key for one start of one engine. It goes by the environment: everybody reads command lines (`ps`)."""
    return secrets.token_urlsafe(32)
