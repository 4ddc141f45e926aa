"""Samples to micro-batches without padding: bins by token budget, shared prefixes, balance over ranks. numpy only."""
