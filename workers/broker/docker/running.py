"""One command in a container: the main one, or one that is executed beside it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from workers.broker.docker.output import Output
from workers.broker.interface import Held, Process
from workers.sandbox import SandboxError

NOT_STARTED = 126  # exit status of a command that cannot be started
LOST = 137  # the exit status of a command that ended with its sandbox


@dataclass
class Running:
    """The execution of one command, with its output."""

    output: Output = field(default_factory=Output)
    process: Process | None = None
    exit_code: int | None = None
    began: datetime | None = None
    finished: datetime | None = None
    started: asyncio.Event = field(default_factory=asyncio.Event)
    done: asyncio.Event = field(default_factory=asyncio.Event)
    _after: Callable[[], Awaitable[str]] | None = None

    @property
    def runs(self) -> bool:
        return self.process is not None and self.exit_code is None

    async def start(
        self,
        held: Held,
        argv: tuple[str, ...],
        *,
        env: Mapping[str, str],
        cwd: str | None,
        stdin: bool,
        terminal: tuple[int, int] | None,
        after: Callable[[], Awaitable[str]] | None = None,
        recorded: bool = True,
    ) -> None:
        """Start the command. `after` runs once it has ended, before clients hear of the end; the text that it returns
        becomes an error of the command. Raises SandboxError."""
        self.began, self._after = datetime.now(UTC), after
        try:
            process = await held.start(
                argv,
                env=env,
                cwd=cwd or None,
                on_output=self.output.feed,
                stdin=stdin,
                terminal=terminal,
                recorded=recorded,
            )
        except BaseException:
            self.began = None
            raise
        self.process = self.output.process = process
        self.started.set()
        self._task = asyncio.create_task(self._wait(process))

    def fail(self, reason: str) -> None:
        """End without having started; the reason becomes the output."""
        self.output.feed("stderr", f"{reason}\n".encode())
        self._over(NOT_STARTED)

    def give_up(self) -> None:
        """It will never start: wake the clients that wait for its end or follow its output."""
        self.output.end()
        self.done.set()

    async def _wait(self, process: Process) -> None:
        code = LOST
        try:
            with contextlib.suppress(SandboxError):
                code = (await process.wait()).exit_code
            if self._after is not None and (said := await self._after()):
                self.output.feed("stderr", f"{said}\n".encode())
        finally:
            self._over(code)

    def _over(self, code: int) -> None:
        self.exit_code, self.finished = code, datetime.now(UTC)
        self.output.end()
        self.done.set()
