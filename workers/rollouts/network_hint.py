"""What a box's missing network looks like from inside, turned into words that say how to cure it."""

from __future__ import annotations

from envhub.protocol.rollouts import RolloutRecord

# how the C library, Python's clients and the box's own proxy say it
SIGNS = (
    "Temporary failure in name resolution",
    "Name or service not known",
    "Network is unreachable",
    "nodename nor servname",
    "is not on this run's list",
)
ADVICE = (
    "the environment asked for the network, which its box has not: grant the host with `hub eval run --allow-host "
    "HOST:PORT` (an operator permits hosts with HUB_BOX_ALLOW_HOSTS)"
)


def advise(record: RolloutRecord) -> RolloutRecord:
    """The record; a failure for want of a network says first what to do."""
    failure = record.failure
    if failure is None or not any(sign in f"{failure.message}\n{failure.traceback}" for sign in SIGNS):
        return record
    explained = failure.model_copy(update={"message": f"{ADVICE}\n{failure.message}"})
    return record.model_copy(update={"failure": explained})
