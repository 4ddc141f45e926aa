"""Property tests run on machines that are shared and slow at times: no deadlines, and not too many examples."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("training", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("training")
