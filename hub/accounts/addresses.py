"""Where the page of an owner is."""

from __future__ import annotations

from django.urls import reverse

from hub.accounts.services.users import RESERVED_SLUGS


def address_of(slug: str) -> str:
    """`/OWNER`, or `/owners/OWNER` where that is an address of the hub itself, as of the user `admin`."""
    return reverse("owner-long" if slug in RESERVED_SLUGS else "owner", args=(slug,))
