"""`python -m workers.sandbox run|check|doctor`: a command in a box; can boxes run here; proof of a host."""

import argparse
import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path
from typing import Literal

from .backends import NAMES, backend, commands_root
from .doctor.report import run_doctor
from .errors import SandboxError
from .interface import MIB, BoxSpec, Facts, Limits, Sandbox

USAGE = 2
FAILED = 125  # as docker and env do: the sandbox, not the command


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def complain(text: str) -> None:
    sys.stderr.write(text + "\n")


def positive(kind: type[int] | type[float]) -> "type[int] | type[float]":
    def parse(text: str) -> float:
        value = kind(text)
        if not 0 < value < float("inf"):
            raise argparse.ArgumentTypeError("a number above 0")
        return value

    return parse  # type: ignore[return-value]


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="python -m workers.sandbox", description=__doc__)
    found.add_argument("--root", type=Path, help="where boxes are recorded (default: one for all commands)")
    commands = found.add_subparsers(dest="command", required=True)
    commands.add_parser("check", help="one line: can boxes run here, and if not the command that cures it")
    doctor = commands.add_parser("doctor", help="hostile actions, and what happens without each protection")
    doctor.add_argument("--no-controls", action="store_true", help="only the attacks")
    run = commands.add_parser("run", help="one command in a fresh box; exit status and output are the command's")
    run.add_argument("--backend", choices=NAMES, default="bwrap")
    run.add_argument("--mem", type=positive(int), metavar="MB", help="memory (default 1024)")
    run.add_argument("--pids", type=positive(int), metavar="N", help="processes and threads (default 128)")
    run.add_argument("--disk", type=positive(int), metavar="MB", help="all that is written, in memory (default 1024)")
    run.add_argument("--files", type=positive(int), metavar="N", help="files and directories (default 100000)")
    run.add_argument("--cpus", type=positive(float), metavar="N", help="CPU share (default 1 where it can be held)")
    run.add_argument("--timeout", type=positive(float), metavar="SECONDS", default=3600.0)
    run.add_argument("--net", choices=("none", "gateway"), default="none")
    run.add_argument("--sockets", type=Path, help="with --net gateway: the directory that has gateway.sock")
    run.add_argument("argv", nargs=argparse.REMAINDER, metavar="-- CMD ...")
    return found


def limits(options: argparse.Namespace) -> Limits:
    default = Limits()
    return Limits(
        memory_bytes=options.mem * MIB if options.mem else default.memory_bytes,
        pids=options.pids or default.pids,
        disk_bytes=options.disk * MIB if options.disk else default.disk_bytes,
        files=options.files or default.files,
        cpus=options.cpus,
        lifetime_seconds=options.timeout + 60,
    )


def spill(stream: Literal["stdout", "stderr"], data: bytes) -> None:
    """Straight through, unbuffered; a reader that went away must not end the box's accounting."""
    with contextlib.suppress(BrokenPipeError):
        view = memoryview(data)
        while view:
            view = view[os.write(1 if stream == "stdout" else 2, view) :]


async def run_command(sandbox: Sandbox, spec: BoxSpec, argv: list[str], timeout: float) -> int:
    async with sandbox.create(spec) as box:
        job = await box.start_job(argv, on_output=spill, output_limit=0)
        loop = asyncio.get_running_loop()
        tasks: set[asyncio.Task[None]] = set()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, lambda: tasks.add(asyncio.create_task(job.kill())))
        result = await job.wait(timeout)
        if result.timed_out:
            complain(f"ended after {timeout:g} s")
        if result.oom_killed:
            complain("out of memory: the limit of the box ended it")
        return result.exit_code


def run(options: argparse.Namespace, root: Path) -> int:
    argv = options.argv[1:] if options.argv[:1] == ["--"] else options.argv
    if not argv:
        complain("no command; write it after --")
        return USAGE
    accepted = os.environ.get("WORKER_SANDBOX_ACCEPT_NO_ISOLATION", "").lower() in ("1", "true", "yes")
    sandbox = backend(options.backend, root, accept_no_isolation=accepted)
    spec = BoxSpec(limits=limits(options), network=options.net, sockets=options.sockets)
    return asyncio.run(run_command(sandbox, spec, argv, options.timeout))


async def first_box(root: Path) -> Facts:
    sandbox = backend("bwrap", root)
    async with sandbox.create(BoxSpec()) as box:
        result = await box.exec(["true"])
    if result.exit_code:
        raise SandboxError(f"a box was made, but `true` ended with {result.exit_code}")
    return sandbox.facts


def check(root: Path) -> int:
    facts = asyncio.run(first_box(root))
    say(f"sandbox ok: {facts.backend}, {facts.identity}, {facts.limits}" + "".join(f"; {d}" for d in facts.downgrades))
    return 0


def main() -> int:
    options = parser().parse_args()
    try:
        root = options.root or commands_root()
        if options.command == "run":
            return run(options, root)
        if options.command == "check":
            return check(root)
        return 0 if run_doctor(root, say, controls=not options.no_controls) else 1
    except SandboxError as error:
        complain(f"{error.code}: {error.message}")
        if error.hint:
            complain(f"  {error.hint}")
        return FAILED


if __name__ == "__main__":
    sys.exit(main())
