"""Command line of the demo: `python -m infra.demo --data DIR --port N [--short] [--exit]`."""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

from infra.demo import faults, steps, training
from infra.demo.hub import ROOT, Cli, DemoFailed, Hub

TRAINED = "reverse-text"


def say(text: str) -> None:
    """A line for the user, at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def check_sandbox() -> None:
    """Boxes must run here. Raises DemoFailed with the one command that helps."""
    command = [sys.executable, "-m", "workers.sandbox", "check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise DemoFailed(done.stdout + done.stderr)


def demo(hub: Hub, *, short: bool) -> None:
    """All steps, from nothing to tables of scores and a trained adapter."""
    check_sandbox()
    with steps.timed(say, f"1/5 starting the hub at {hub.url}"):
        hub.start()
    cli = Cli(hub, hub.token("demo"))
    with steps.timed(say, "2/5 pushing and building the sample environments"):
        versions = steps.push_all(cli, steps.chosen(short), say)
    with steps.timed(say, f"3/5 making the model {steps.MODEL} (a character-level language model, on this CPU)"):
        hub.manage("tiny_model")  # which the hub has begun already
    with steps.timed(say, f"4/5 evaluating {steps.MODEL} in the sandbox"):
        evaluations = steps.evaluate_all(cli, versions, 10 if short else 20, 4, say)
    say("\n" + steps.table(evaluations) + "\n")
    name, version = f"{versions[TRAINED]['owner']}/{TRAINED}", versions[TRAINED]["version"]
    with steps.timed(say, f"5/5 training {steps.MODEL} on {name}, then evaluating the adapter beside its base"):
        run = training.train(cli, say, short=short)
        both = training.evaluate_both(cli, f"{name}@{version}", run, say)
    say("\n" + steps.table(both, "model"))
    if short:
        first = next(iter(versions.values()))
        with steps.timed(say, "\nkilling processes of the hub during one more evaluation"):
            faults.drill(hub, cli.token, f"{first['owner']}/{first['name']}@{first['version']}", say)
    say(f"\nThe dashboard: {hub.url}\nSign in once with: {hub.manage('login_link', 'demo')}")
    with suppress(DemoFailed):  # somebody has disabled that user since
        say(f"As administrator (users, workers, data sets): {hub.manage('login_link', 'admin')}")


def main() -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="make demo")
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument(
        "--short",
        action="store_true",
        help="three environments, then kill -9 of its processes",
    )
    parser.add_argument("--exit", action="store_true", help="stop the hub at the end")
    arguments = parser.parse_args()
    hub = Hub(arguments.data.absolute(), arguments.port, faults.SETTINGS if arguments.short else {})
    start = time.monotonic()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        demo(hub, short=arguments.short)
        say(f"({time.monotonic() - start:.0f} s)")
        if hub.process is not None and not arguments.exit:
            say("Ctrl-C stops the hub.")
            hub.process.wait()
    except DemoFailed as error:
        sys.stderr.write(f"{error}\n(the hub's log: {hub.log})\n")
        return 1
    except KeyboardInterrupt:
        pass
    finally:
        hub.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
