"""Second factors in the database: their secrets are encrypted as all secrets are (`settings.MFA_ADAPTER`)."""

from __future__ import annotations

from typing import Any

from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.models import Authenticator
from django.conf import settings

from hub.accounts.models import User
from hub.secrets.services import decrypt, encrypt

CIPHERTEXTS = ("secret", "seed")  # of an authenticator app, of recovery codes


class SecondFactors(DefaultMFAAdapter):  # type: ignore[misc]
    """What django-allauth asks before it writes, and after it reads."""

    def encrypt(self, text: str) -> str:
        """Under the newest key."""
        return encrypt(text)

    def decrypt(self, encrypted_text: str) -> str:
        """Raises Unavailable when no key of this hub opens it."""
        return decrypt(encrypted_text)

    def get_public_key_credential_rp_entity(self) -> dict[str, str]:
        """What passkeys belong to: the host of HUB_BASE_URL, never the Host header."""
        return {"id": settings.HUB.base_url.host or "", "name": "Environments Hub"}

    def get_public_key_credential_user_entity(self, user: User) -> dict[str, Any]:
        """What the browser shows when it asks for a passkey."""
        entity: dict[str, Any] = super().get_public_key_credential_user_entity(user)
        return entity | {"name": user.username, "display_name": user.username}

    def generate_authenticator_name(self, user: User, type: str) -> str:
        """Of one that its user gives no name."""
        count = Authenticator.objects.filter(user=user, type=type).count()
        return f"Passkey {count + 1}" if count else "Passkey"

    def get_totp_label(self, user: User) -> str:
        """What the authenticator app shows beside the code."""
        return user.username


def rotate_second_factors() -> int:
    """Re-encrypt them under the newest key, each by compare-and-set; how many. Safe to run again."""
    keys = Authenticator.objects.order_by("pk").values_list("pk", "data").iterator()
    return sum(Authenticator.objects.filter(pk=pk, data=data).update(data=_renewed(data)) for pk, data in keys)


def _renewed(data: dict[str, Any]) -> dict[str, Any]:
    return data | {name: encrypt(decrypt(data[name])) for name in CIPHERTEXTS if data.get(name)}
