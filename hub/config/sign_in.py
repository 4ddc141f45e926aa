"""How people sign in, for django-allauth: what HUB_MAIL_URL, HUB_OIDC_* and HUB_BASE_URL make of its settings."""

from __future__ import annotations

from typing import Any

from hub.accounts.relying_party import passkey_obstacle
from hub.config.environment import HubEnvironment

PROVIDER_ID = "sso"


def sign_in_settings(hub: HubEnvironment) -> dict[str, Any]:
    """Django settings by name. With mail, an address is asked for and must be confirmed; without it, none is asked."""
    has_mail = bool(hub.mail_url)
    passkeys = not passkey_obstacle(hub.base_url, password_login=hub.password_login, provider=hub.oidc_name)
    return {
        "MFA_SUPPORTED_TYPES": ["totp", "recovery_codes", *(["webauthn"] if passkeys else [])],
        "MFA_PASSKEY_LOGIN_ENABLED": passkeys,
        "ACCOUNT_DEFAULT_HTTP_PROTOCOL": hub.base_url.scheme,
        "ACCOUNT_EMAIL_NOTIFICATIONS": has_mail,  # of a changed password, address or second factor
        "ACCOUNT_EMAIL_VERIFICATION": "mandatory" if has_mail else "none",
        "ACCOUNT_SIGNUP_FIELDS": ["username*", *(["email*"] if has_mail else []), "password1*"],
        "SOCIALACCOUNT_PROVIDERS": _provider(hub) if hub.oidc_issuer else {},
    }


def _provider(hub: HubEnvironment) -> dict[str, Any]:
    app = {
        "provider_id": PROVIDER_ID,
        "name": hub.oidc_name,
        "client_id": hub.oidc_client_id,
        "secret": hub.oidc_client_secret,
        "settings": {"server_url": hub.oidc_issuer.rstrip("/")},
    }
    return {"openid_connect": {"APPS": [app], "OAUTH_PKCE_ENABLED": True}}
