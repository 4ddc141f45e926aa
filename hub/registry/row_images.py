"""The images that the rows of a version name for their sandboxes, as its build found them, and which cannot be had."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from envhub.protocol.registry.needs import Need, NeedKind
from envhub.protocol.runner import Described
from pydantic import ValidationError

from hub.core.errors import Conflict
from hub.core.needs import Borrower, lacking
from hub.registry.models import Version

MOST_TOLD = 20


@dataclass(frozen=True)
class ChosenRows:
    """The first `number` rows of a split; -1: all."""

    split: str
    number: int = -1


def images_needed(version: Version) -> tuple[Need, ...]:
    """Return the images of its rows that its owner's runs could not have, with the first row that needs each."""
    described = _described(version)
    first: dict[str, int] = {}
    for split in described.splits.values() if described else ():
        for name, row in split.images.items():
            first[name] = min(row, first.get(name, row))
    lost = _lacking(first, version, None)
    return tuple(
        Need(kind=NeedKind.SANDBOX, name=name, detail=f"the first example that needs it is {row}")
        for name, row in list(lost.items())[:MOST_TOLD]
    )


def require_images(version: Version, reference: str, rows: ChosenRows, borrower: Borrower, field: str) -> None:
    """Raise Conflict if an image that the chosen rows need cannot be had; the hint has the command that adds one."""
    described = _described(version)
    split = described.splits.get(described.rows_of(rows.split)) if described else None
    needed = split.images if split is not None else {}
    chosen = {name: row for name, row in needed.items() if rows.number < 0 or row < rows.number}
    lost = _lacking(chosen, version, borrower)
    if not lost:
        return
    told = list(lost)[:3]
    more = f" and {len(lost) - len(told)} more" if len(lost) > len(told) else ""
    before = min(lost.values())
    fewer = f"; the first {before} need none of them" if before > 1 else "; the first needs none of them" * before
    raise Conflict(
        f"the chosen examples of {reference} need images that cannot be had: {', '.join(told)}{more}",
        code="needs_unmet",
        hint=f"`hub image add {told[0]} TAR`, or the operator lets its registry through with HUB_IMAGE_REGISTRIES"
        f"{fewer}; `hub env info {reference}` lists them",
        fields={field: f"needs the image {told[0]}{more}"},
    )


def _described(version: Version) -> Described | None:
    try:
        return Described.model_validate(version.describe) if version.describe else None
    except ValidationError:
        return None


def _lacking(images: Mapping[str, int], version: Version, borrower: Borrower | None) -> dict[str, int]:
    """Return the images that cannot be had, those of the first rows first."""
    names = set(lacking(NeedKind.SANDBOX, images, version.environment.owner_id, borrower))
    return {name: row for name, row in sorted(images.items(), key=lambda item: item[1]) if name in names}
