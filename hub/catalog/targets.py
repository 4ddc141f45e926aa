"""How a variant is really called: decrypted, by the operator's rules. The only place where keys leave the database."""

from __future__ import annotations

import json

from django.conf import settings
from envhub.protocol.models.catalog import EndpointKind, OutboundPolicy, TargetVariant

from hub.catalog.models import Variant
from hub.secrets.services import decrypt


def target_variant(row: Variant) -> TargetVariant:
    """One variant with its credentials."""
    return TargetVariant(
        kind=EndpointKind(row.kind),
        base_url=row.base_url,
        model=row.remote_model,
        api_key=decrypt(row.encrypted_key) if row.encrypted_key else "",
        headers=json.loads(decrypt(row.encrypted_headers)) if row.encrypted_headers else {},
        timeout_s=row.timeout_s,
        max_retries=row.max_retries,
    )


def outbound_policy() -> OutboundPolicy:
    """The operator's rules for user-given URLs."""
    hub = settings.HUB
    return OutboundPolicy(
        allow=tuple(hub.outbound_allow), allow_loopback=hub.outbound_allow_loopback, own_urls=hub.own_urls()
    )
