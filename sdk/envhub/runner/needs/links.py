"""One exception of the chain that envhub.runner.needs.reading reads: what each of its readings is given."""

from __future__ import annotations

from typing import NamedTuple


class Link(NamedTuple):
    """One exception of a chain, or what its traceback says of it."""

    module: str  # where its class is defined
    names: frozenset[str]  # of its classes, bases included
    text: str
    error: BaseException | None = None

    @property
    def package(self) -> str:
        """The top of its module's name."""
        return self.module.partition(".")[0]
