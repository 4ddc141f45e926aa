"""How many rollouts are sampled at once: oversampling and backfill."""

from __future__ import annotations


def in_flight_limit(
    *, batch_size: int, group_size: int, max_inflight: int | None = None, oversampling_factor: float | None = None
) -> int:
    """Rollouts that may be in flight. Either key of the hosted format, not both; neither: one batch.

    oversampling_factor f means int(f * batch_size), but never less than a group.
    """
    if max_inflight is not None and oversampling_factor is not None:
        raise ValueError("give max_inflight_rollouts or oversampling_factor, not both")
    if max_inflight is None:
        return max(group_size, int(batch_size * (oversampling_factor or 1.0)))
    if max_inflight < group_size:
        raise ValueError(f"max_inflight_rollouts is {max_inflight}; a group has {group_size} rollouts at once")
    return max_inflight


def groups_to_start(*, in_flight: int, limit: int, group_size: int, wanted_groups: int | None = None) -> int:
    """Whole groups to begin now, with `in_flight` rollouts under way.

    wanted_groups: stop at what open batches miss (`AdmissionQueue.missing`, less groups under way): what deterministic
    and strictly on-policy runs need. None: keep the engine full, and let staleness bound what waits.
    """
    free = max(0, limit - in_flight) // group_size
    return free if wanted_groups is None else min(free, max(0, wanted_groups))
