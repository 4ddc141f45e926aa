"""How long calls took: percentiles by name, and how many failed."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Timings:
    """Seconds of each call by its name; failures by what they said."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    failures: Counter[str] = field(default_factory=Counter)

    @contextmanager
    def taken(self, name: str) -> Iterator[None]:
        """Time what happens inside; what it raises is counted and goes on."""
        began = time.perf_counter()
        try:
            yield
        except Exception as error:
            self.failures[f"{name}: {type(error).__name__}: {error}"[:200]] += 1
            raise
        self.seconds[name].append(time.perf_counter() - began)

    def print(self) -> None:
        """A line for each name."""
        for name, taken in sorted(self.seconds.items()):
            ordered = sorted(taken)
            p50, p95, p99 = (
                1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in (0.5, 0.95, 0.99)
            )
            print(f"  {name:34} {len(taken):7} calls  p50 {p50:7.1f}  p95 {p95:7.1f}  p99 {p99:7.1f} ms")
        for failure, count in self.failures.most_common(10):
            print(f"  FAILED {count} x {failure}")
