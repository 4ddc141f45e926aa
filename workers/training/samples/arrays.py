"""Names of the array types that samples, batches and micro-batches are made of."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]  # token ids, positions, versions, indices
Floats = NDArray[np.float32]  # logprobs, advantages, weights
Flags = NDArray[np.bool_]
Reals = NDArray[np.float64]  # where sums are made: rewards, returns, baselines


def ids(values: Iterable[int]) -> Ids:
    """An i32 array of its own."""
    return np.array(tuple(values), dtype=np.int32)


def floats(values: Iterable[float]) -> Floats:
    """An f32 array of its own."""
    return np.array(tuple(values), dtype=np.float32)
