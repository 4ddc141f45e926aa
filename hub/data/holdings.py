"""Tells versions that need them which repositories, files and images are stored, or arrive (hub.core.needs)."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from uuid import UUID

from django.conf import settings
from envhub.protocol.registry.files import FileKind, need_of, url_of
from envhub.protocol.registry.needs import NeedKind
from envhub.protocol.sandboxes.images import BASE, OWNED, canonical, may_be_stood_in_for, reference_in, spellings

from hub.core.needs import Arrival, Borrower, Holder, HostSetting, announce, register_holder, register_host_setting
from hub.data import file_source, upstream
from hub.data.models import Image, OutsideFile, RepositoryKind, Snapshot
from hub.data.queries import file_at, find_image, pinned, usable_images

KINDS = {RepositoryKind.DATASET.value: NeedKind.DATA_SET, RepositoryKind.MODEL.value: NeedKind.MODEL}


def register() -> None:
    """Register everything; called once, when the app is ready."""
    for kind, need in KINDS.items():
        register_holder(need, Holder(has=partial(_has, kind), may_fetch=upstream.may_fetch))
    for need in (NeedKind.FILE, NeedKind.CORPUS):
        register_holder(need, Holder(has=_has_file, may_fetch=_may_fetch_file))
    kinds = frozenset({NeedKind.FILE, NeedKind.CORPUS, NeedKind.HOST})
    register_host_setting(HostSetting("HUB_FILE_HOSTS", lambda: settings.HUB.file_hosts, kinds, _opens))
    register_holder(NeedKind.SANDBOX, Holder(_has_image, _may_pull, _lends_image, _lacking_images))
    images = frozenset({NeedKind.SANDBOX})
    register_host_setting(
        HostSetting("HUB_IMAGE_REGISTRIES", lambda: settings.HUB.image_registries, images, _lets_through)
    )


def _has(kind: str, name: str, owner_id: UUID) -> bool:
    return pinned(kind, name) is not None


def _has_file(name: str, owner_id: UUID) -> bool:
    url = url_needed(name)
    return bool(url) and file_at(url) is not None


def _may_fetch_file(name: str) -> bool:
    url = url_needed(name)
    return bool(url) and file_source.may_fetch(url)


def _opens(entry: str, name: str) -> bool:
    """Return whether a setting's entry allows what a need names.

    That may be "host:port", if a failed connection is all that is known of some code.
    """
    url = url_needed(name) or f"{'http' if name.endswith(':80') else 'https'}://{name}"
    try:
        return file_source.allows(url, [entry])
    except ValueError:  # the port is not a number
        return False


def _has_image(name: str, owner_id: UUID) -> bool:
    image = image_needed(name)
    row = find_image(image, owner_id=owner_id) if image else None
    return row is not None and row.blob_id is not None


def _lends_image(name: str, owner_id: UUID, borrower: Borrower) -> bool:
    """Return False if the owner keeps the image private, and the borrower cannot get another with that name."""
    image = image_needed(name)
    row = find_image(image, owner_id=owner_id) if image else None
    if row is None or row.owner_id is None or row.is_public:
        return True
    found = find_image(image, owner_id=borrower.owner_id, user=borrower.user, authors={owner_id})
    return found is not None or _may_pull(image) or (settings.HUB.image_stand_ins and may_be_stood_in_for(image))


def _lacking_images(names: Collection[str], owner_id: UUID, borrower: Borrower | None) -> Collection[str]:
    known = {name: image_needed(name) for name in names}
    stored = {image for image in known.values() if image and not _comes_by_itself(image)}
    user, runs_for = (borrower.user, borrower.owner_id) if borrower else (None, owner_id)
    here = usable_images(stored, owner_id=runs_for, user=user, authors={owner_id})
    return [name for name, image in known.items() if not image or image in stored - here]


def _comes_by_itself(image: str) -> bool:
    stand_in = settings.HUB.image_stand_ins and may_be_stood_in_for(image)
    return image == BASE or stand_in or _may_pull(image)


def _may_pull(name: str) -> bool:
    return any(_lets_through(entry, name) for entry in settings.HUB.image_registries)


def _lets_through(entry: str, name: str) -> bool:
    image = image_needed(name)
    return bool(image) and bool(reference_in([entry], image))


def image_needed(name: str) -> str:
    """Return the canonical name of the image that a need names; "" if it names none ("*": any machine)."""
    try:
        return canonical(name)
    except ValueError:
        return ""


def url_needed(name: str) -> str:
    """Return the URL of the file that a need names ("nltk:words", "https://..."); "" if it is not a file."""
    prefix, _, rest = name.partition(":")
    kinds: dict[str, FileKind] = {"nltk": "nltk", "tiktoken": "tiktoken", "spacy": "spacy"}
    try:
        return url_of(kinds[prefix], rest) if prefix in kinds else url_of("file", name)
    except ValueError:
        return ""


def announce_file(row: OutsideFile) -> None:
    """Announce a file on commit: a corpus under its name, and under its URL for code that fetches it directly."""
    kinds: dict[str, FileKind] = {"nltk": "nltk", "tiktoken": "tiktoken", "spacy": "spacy"}
    kind, name = need_of(kinds.get(row.kind, "file"), row.name)
    announce(Arrival(kind, (name,)))
    if kind is not NeedKind.FILE:
        announce(Arrival(NeedKind.FILE, (row.url,)))


def announce_image(row: Image) -> None:
    """Announce an image on commit under all spellings of its short and full names; a public one to everybody."""
    announce(Arrival(NeedKind.SANDBOX, spellings(row.name), owner_id=row.owner_id))
    if row.owner is not None:
        whole = [f"{place}/{row.owner.slug}/{row.name}" for place in OWNED]
        names = tuple(name for one in whole for name in spellings(one))
        announce(Arrival(NeedKind.SANDBOX, names, owner_id=None if row.is_public else row.owner_id))


def announce_snapshot(snapshot: Snapshot) -> None:
    """Announce a snapshot on commit, under OWNER/NAME and under NAME alone, as code may ask for either."""
    whole = snapshot.repository
    announce(Arrival(KINDS[snapshot.kind], (whole, whole.rpartition("/")[2])))
