"""OversizedSample: a sample does not fit into a micro-batch."""

from __future__ import annotations


class OversizedSample(ValueError):
    """A sample is longer than the token budget, and the policy is to refuse."""
