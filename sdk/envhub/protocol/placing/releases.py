"""Which releases understand each other: the number of the wire protocol, sent with every request and answer.

Within a number a later release takes all that an earlier one sends, and an earlier one reads all that a later one
answers: requests get new fields only with defaults, answers get new fields, and nothing that was there goes, changes
its type or takes fewer values (tests/contract/test_compatibility.py holds every type to that). What breaks this raises
PROTOCOL; OLDEST follows no sooner than a release later, so that workers may be one release older than their hub.
"""

from __future__ import annotations

from dataclasses import dataclass

PROTOCOL = 1  # what this release speaks
OLDEST = 1  # what its hub still takes
HEADER = "Envhub-Protocol"  # of requests and answers; clients from before it speak 1


@dataclass(frozen=True)
class Mismatch:
    """Why a client and this hub do not understand each other."""

    code: str
    message: str
    hint: str


def mismatch(told: str, release: str) -> Mismatch | None:
    """Of what a client says that it speaks, and this hub's release; None when they agree."""
    number = int(told) if told.isascii() and told.isdigit() and len(told) <= 4 else 0
    if OLDEST <= number <= PROTOCOL:
        return None
    if number > PROTOCOL:
        return Mismatch(
            "hub_too_old",
            f"the hub is too old for this client: release {release} speaks protocol {PROTOCOL}, not {number}",
            "Upgrade the hub first, then workers and command lines.",
        )
    return Mismatch(
        "client_too_old",
        f"this client is too old for the hub: it speaks protocol {number}, and the hub {OLDEST} to {PROTOCOL}",
        f"Upgrade this worker or command line to release {release} (`hub --version` says which it has).",
    )
