"""What the runner asks of a generation's adapter, and the small types that both adapters share."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol

from .attempts import Attempt, Result


class NoSuchExample(LookupError):
    """The split has no example of this index."""


@dataclass(frozen=True)
class Row:
    """One example: `data` is what records show and hash, `source` what the library takes."""

    data: dict[str, Any]
    source: Any
    requires_group: bool


@dataclass(frozen=True)
class Policy:
    """How one group reaches its model."""

    base_url: str  # with "{rollout}", unless there are no keys
    model: str
    api_key: str
    client_type: str
    keys: dict[int, str]  # by rollout index
    group_key: str

    def url(self, index: int) -> str:
        """The base URL of one rollout."""
        return self.base_url.replace("{rollout}", self.keys.get(index, ""))

    @property
    def group_url(self) -> str:
        """The base URL of calls that the library makes for a whole group."""
        return self.base_url.replace("{rollout}", self.group_key)


class Adapter(Protocol):
    """One loaded environment of some generation."""

    generation: str
    in_process_harness: bool

    @property
    def env_class(self) -> str: ...

    @property
    def requires_group(self) -> bool: ...

    @property
    def provides_advantages(self) -> bool: ...

    def prepare(self, supervise: Callable[[Attempt, Awaitable[Any]], Awaitable[Any]]) -> None: ...

    def describe(self, rows: int) -> dict[str, Any]: ...

    def row(self, split: str, index: int) -> Row: ...

    async def run(
        self, row: Row, attempts: list[Attempt], policy: Policy, state_columns: list[str]
    ) -> list[Result]: ...

    async def teardown(self) -> None: ...
