"""Images of sandboxes."""

from __future__ import annotations

from envhub.protocol.base import BlobRef
from envhub.protocol.visibility import Visibility

from hub.accounts.models import Owner
from hub.data.images import Place, add_image
from hub.data.models import Image
from tests.factories.accounts import make_user
from tests.factories.storage import make_blob


def create_image(owner: Owner | None, name: str = "tool:1", *, visibility: Visibility | None = None) -> Image:
    """An image of random bytes; without an owner everybody's."""
    blob, by = make_blob(), (owner.user if owner else None) or make_user()
    content = BlobRef(sha256=blob.sha256, size=blob.size)
    return add_image(place=Place(name, owner), layout="docker", content=content, by=by, visibility=visibility)
