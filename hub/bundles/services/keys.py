"""The hub's own key: made at first need, kept encrypted, used for manifests of bundles alone."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from envhub.packaging.bundle_keys import PREFIX, read, written
from envhub.protocol.registry.bundles import SIGNED, BundleSignature

from hub.bundles.models import OWN, SigningKey
from hub.secrets.services import decrypt, encrypt


def own_key() -> str:
    """The public key that this hub signs with."""
    return _row().public


def sign(manifest: str) -> BundleSignature:
    """Raises Unavailable when the hub's secrets cannot be decrypted."""
    row = _row()
    key = Ed25519PrivateKey.from_private_bytes(read(decrypt(row.encrypted_key)))
    return BundleSignature(key=row.public, signature=written(key.sign(SIGNED + manifest.encode())))


def renew_key() -> str:
    """A new key in the place of the old one, which this hub trusts no longer by itself."""
    SigningKey.objects.update_or_create(name=OWN, defaults=_made())
    return own_key()


def _row() -> SigningKey:
    known = SigningKey.objects.filter(name=OWN).first()
    return known or SigningKey.objects.get_or_create(name=OWN, defaults=_made())[0]


def _made() -> dict[str, str]:
    key = Ed25519PrivateKey.generate()
    public = PREFIX + written(key.public_key().public_bytes_raw())
    return {"public": public, "encrypted_key": encrypt(written(key.private_bytes_raw()))}
