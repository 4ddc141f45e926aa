"""How one side of a web socket is told that the other has ended: for the hub and workers, who both pass them on."""

from __future__ import annotations

OK, GOING_AWAY, ABNORMAL = 1000, 1001, 1006
NEVER_SENT = {1004, 1005, 1015}  # they only say how a connection ended


def sendable_close_code(told: int | None) -> int:
    """The code to close one side with when the other was closed with `told`."""
    if told is None or told == ABNORMAL:
        return GOING_AWAY
    return OK if told in NEVER_SENT or not OK <= told < 5000 else told
