"""Client calls for sandboxes: create them, run commands, transfer files, open ports."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from envhub.client.connection import Connection
from envhub.client.pages import iterate
from envhub.errors import ConnectionFailed, EnvhubError, ServerError
from envhub.protocol.base import Page
from envhub.protocol.sandboxes.sandboxes import (
    CommandList,
    CommandView,
    Done,
    ExecRequest,
    ExecResult,
    InputTaken,
    OutputEvent,
    PortAddress,
    PortList,
    PortRequest,
    PortView,
    ProcessList,
    ProcessRequest,
    ProcessView,
    SandboxRequest,
    SandboxState,
    SandboxStats,
    SandboxView,
    SiblingsAddress,
    SignalRequest,
    TerminalSize,
)

MORE_S = 30.0  # on top of a command's own timeout
FIRST_POLL_S, LONGEST_POLL_S = 0.1, 1.0
PATIENCE = 6  # broken streams in a row


class SandboxFailed(EnvhubError):
    """Raised if a sandbox ended before it could be used."""

    code = "sandbox_failed"


class Sandboxes:
    """Calls under /sandboxes."""

    def __init__(self, connection: Connection) -> None:
        self._hub = connection

    def create(self, request: SandboxRequest | None = None) -> SandboxView:
        """Request a sandbox; `wait` returns once it runs."""
        return self._hub.post("/sandboxes", request or SandboxRequest(), SandboxView)

    def wait(
        self,
        sandbox_id: str,
        *,
        notice: Callable[[SandboxView], None] = lambda view: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> SandboxView:
        """Wait until the sandbox runs; `notice` is called with its state. Raises SandboxFailed if it has ended."""
        pause = FIRST_POLL_S
        while True:
            view = self.get(sandbox_id)
            if view.state is SandboxState.RUNNING:
                return view
            if view.state.is_final:
                hint = view.failure.hint if view.failure else ""
                raise SandboxFailed(f"the sandbox has ended ({view.state}): {view.reason or 'by request'}", hint=hint)
            notice(view)
            sleep(pause)
            pause = min(1.3 * pause, LONGEST_POLL_S)

    def list(
        self, *, owner: str | None = None, state: str | None = None, label: str | None = None
    ) -> Iterator[SandboxView]:
        """List visible sandboxes, newest first, including ended ones."""
        return iterate(self._hub, "/sandboxes", Page[SandboxView], owner=owner, state=state, label=label)

    def get(self, sandbox_id: str) -> SandboxView:
        """Return one sandbox."""
        return self._hub.get(f"/sandboxes/{sandbox_id}", SandboxView)

    def delete(self, sandbox_id: str) -> None:
        """End a sandbox; one that has ended is unchanged."""
        self._hub.delete(f"/sandboxes/{sandbox_id}")

    def exec(
        self,
        sandbox_id: str,
        command: str | Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        timeout_s: float = 30.0,
        stdin: str = "",
    ) -> ExecResult:
        """Run a command to its end. A string is run by a shell, a sequence directly."""
        line, argv = (command, None) if isinstance(command, str) else (None, tuple(command))
        request = ExecRequest(command=line, argv=argv, cwd=cwd, env=dict(env or {}), timeout_s=timeout_s, stdin=stdin)
        answer = self._hub.send("POST", f"/sandboxes/{sandbox_id}/exec", body=request, timeout_s=timeout_s + MORE_S)
        return ExecResult.model_validate_json(answer.content)

    def start(self, sandbox_id: str, request: ProcessRequest) -> ProcessView:
        """Start a process whose output can be fetched later."""
        return self._hub.post(f"/sandboxes/{sandbox_id}/processes", request, ProcessView)

    def processes(self, sandbox_id: str) -> tuple[ProcessView, ...]:
        """List the processes started, oldest first."""
        return self._hub.get(f"/sandboxes/{sandbox_id}/processes", ProcessList).items

    def process(self, sandbox_id: str, pid: int) -> ProcessView:
        """Return a process with its exit status, if it has ended."""
        return self._hub.get(f"/sandboxes/{sandbox_id}/processes/{pid}", ProcessView)

    def output(self, sandbox_id: str, pid: int, *, after: int = 0, wait: bool = True) -> Iterator[OutputEvent]:
        """Yield a process's output until its end, resuming after a broken connection.

        Without `wait`, yield only the output so far.
        """
        path, failures = f"/sandboxes/{sandbox_id}/processes/{pid}/output", 0
        while True:
            try:
                with self._hub.stream(path, params={"after": after, "wait": int(wait)}) as answer:
                    for line in answer.iter_lines():
                        event = OutputEvent.model_validate_json(line)
                        failures, after = 0, max(after, event.seq)
                        if event.kind != "ping":
                            yield event
                        if event.kind == "end":
                            return
                if not wait:
                    return
                failures += 1
                problem: EnvhubError = ServerError("the output broke off", code="sandbox_unreachable")
            except (ConnectionFailed, ServerError) as error:
                failures, problem = failures + 1, error
            if failures > PATIENCE:
                raise problem
            time.sleep(0.2 * failures)

    def write(self, sandbox_id: str, pid: int, data: bytes, *, end: bool = False) -> None:
        """Write to a process's standard input; `end` closes it. Waits for a program that does not read."""
        path = f"/sandboxes/{sandbox_id}/processes/{pid}/input"
        params = {"partial": 1} | ({"end": 1} if end else {})
        while True:
            response = self._hub.send("POST", path, params=params, content=data)
            taken = InputTaken.model_validate_json(response.content).bytes
            if taken is None or taken >= len(data):
                return
            data = data[taken:]

    def signal(self, sandbox_id: str, pid: int, number: int) -> None:
        """Send a signal to a process."""
        self._hub.post(f"/sandboxes/{sandbox_id}/processes/{pid}/signal", SignalRequest(number=number), Done)

    def resize(self, sandbox_id: str, pid: int, size: TerminalSize) -> None:
        """Change the size of a process's terminal."""
        self._hub.post(f"/sandboxes/{sandbox_id}/processes/{pid}/resize", size, Done, repeatable=True)

    def kill(self, sandbox_id: str, pid: int) -> None:
        """End a process."""
        self._hub.delete(f"/sandboxes/{sandbox_id}/processes/{pid}")

    def upload(self, sandbox_id: str, path: str, content: bytes | Path, *, mode: int | None = None) -> None:
        """Write a file, creating its directories. `mode` defaults to that of a Path, else 644."""
        if isinstance(content, Path):
            mode = content.stat().st_mode & 0o777 if mode is None else mode
            content = content.read_bytes()
        params = {"path": path, "mode": f"{0o644 if mode is None else mode:o}"}
        self._hub.send("PUT", f"/sandboxes/{sandbox_id}/files", params=params, content=content, timeout_s=600.0)

    def download(self, sandbox_id: str, path: str, target: Path) -> Path:
        """Save a file of the sandbox as `target`."""
        return self._hub.save(f"/sandboxes/{sandbox_id}/files", target, path=path)

    def read(self, sandbox_id: str, path: str) -> bytes:
        """Return the content of a file of the sandbox."""
        with self._hub.stream(f"/sandboxes/{sandbox_id}/files", params={"path": path}) as answer:
            return answer.read()

    def log(self, sandbox_id: str) -> bytes:
        """Return the output of the sandbox's start command."""
        return self._hub.send("GET", f"/sandboxes/{sandbox_id}/log").content

    def stats(self, sandbox_id: str) -> SandboxStats:
        """Return its current resource usage."""
        return self._hub.get(f"/sandboxes/{sandbox_id}/stats", SandboxStats)

    def commands(self, sandbox_id: str) -> tuple[CommandView, ...]:
        """List the last commands run in it, oldest first."""
        return self._hub.get(f"/sandboxes/{sandbox_id}/commands", CommandList).items

    def siblings(self, sandbox_id: str) -> SiblingsAddress:
        """Return the address at which prime-sandboxes creates sandboxes beside this one, created with `siblings`."""
        return self._hub.post(f"/sandboxes/{sandbox_id}/siblings", None, SiblingsAddress)

    def open_port(self, sandbox_id: str, port: int, *, seconds: float = 3600.0, name: str = "") -> PortAddress:
        """Open a port: anyone who knows the returned address can reach it for `seconds`."""
        request = PortRequest(port=port, seconds=seconds, name=name)
        return self._hub.post(f"/sandboxes/{sandbox_id}/ports", request, PortAddress)

    def ports(self, sandbox_id: str) -> tuple[PortView, ...]:
        """List the open ports, oldest first, without their addresses."""
        return self._hub.get(f"/sandboxes/{sandbox_id}/ports", PortList).items

    def close_port(self, sandbox_id: str, port_id: str) -> None:
        """Close an open port, so that its address stops working."""
        self._hub.delete(f"/sandboxes/{sandbox_id}/ports/{port_id}")
