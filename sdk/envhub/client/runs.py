"""Runs: lists, state, log, cancel."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from urllib.parse import quote

from envhub.client.connection import Connection
from envhub.client.pages import iterate
from envhub.errors import ConnectionFailed, ServerError
from envhub.protocol.base import Page
from envhub.protocol.runs import LogPage, RunView
from envhub.protocol.sandboxes.live import LiveSandboxes

PATIENCE = 6  # failed calls in a row; each has retried for several seconds itself
WAITED_SHARE = 0.05  # of the time that a run was watched: this late its end may be seen
LONGEST_POLL_S = 1.5


class Runs:
    """Calls under /runs that people make (workers have their own client)."""

    def __init__(self, connection: Connection) -> None:
        self._hub = connection

    def list(self, *, kind: str | None = None, state: str | None = None, owner: str | None = None) -> Iterator[RunView]:
        """Visible runs, newest first."""
        return iterate(self._hub, "/runs", Page[RunView], kind=kind, state=state, owner=owner)

    def get(self, run_id: str) -> RunView:
        """One run."""
        return self._hub.get(f"/runs/{run_id}", RunView)

    def log(self, run_id: str, offset: int = 0) -> LogPage:
        """The log from a character offset on."""
        return self._hub.get(f"/runs/{run_id}/log", LogPage, offset=offset)

    def cancel(self, run_id: str) -> RunView:
        """Ask for an end."""
        return self._hub.post(f"/runs/{run_id}/cancel", None, RunView, repeatable=True)

    def sandboxes(self, run_id: str) -> LiveSandboxes:
        """The sandboxes that live inside of a run now, newest first, as its worker told a few seconds ago."""
        return self._hub.get(f"/runs/{run_id}/sandboxes", LiveSandboxes)

    def end_sandbox(self, run_id: str, sandbox_id: str) -> None:
        """End one of them a few seconds later; its rollout has lost it, and is tried again if the run retries."""
        self._hub.delete(f"/runs/{run_id}/sandboxes/{quote(sandbox_id, safe='')}")

    def follow_log(
        self, run_id: str, *, follow: bool = True, poll: float = 0.5, sleep: Callable[[float], None] = time.sleep
    ) -> Iterator[str]:
        """The log's text in pieces, until the run has ended (or, without `follow`, until what is there is read).

        A run that a second worker takes over starts its log again; the new attempt's log follows from its start. With
        `follow`, a hub that restarts meanwhile is waited for as by `watch`.
        """
        offset, attempt, failures = 0, None, 0
        while True:
            try:
                page = self.log(run_id, offset)
                if attempt is not None and page.attempt != attempt:
                    page = self.log(run_id, 0)
            except (ConnectionFailed, ServerError):
                failures += 1
                if not follow or failures > PATIENCE:
                    raise
                sleep(poll)
                continue
            failures, attempt, offset = 0, page.attempt, page.next_offset
            if page.text:
                yield page.text
            elif page.done or not follow:
                return
            else:
                sleep(poll)

    def watch(
        self, run_id: str, *, poll: float = 0.2, sleep: Callable[[float], None] = time.sleep
    ) -> Iterator[RunView]:
        """The run again and again, less often as time goes on, until it is final; the last item is the final state.

        A hub that restarts meanwhile is waited for: several calls in a row must fail before this raises.
        """
        failures, waited = 0, 0.0
        while True:
            try:
                run = self.get(run_id)
            except (ConnectionFailed, ServerError):
                failures += 1
                if failures > PATIENCE:
                    raise
            else:
                failures = 0
                yield run
                if run.state.is_final:
                    return
            pause = max(poll, min(waited * WAITED_SHARE, LONGEST_POLL_S))
            sleep(pause)
            waited += pause
