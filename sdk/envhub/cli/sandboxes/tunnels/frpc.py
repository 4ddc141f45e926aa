"""A program in the place of frpc, by which the unmodified prime_tunnel opens tunnels to the hub's sandboxes.

prime_tunnel runs `~/.prime/bin/frpc -c FILE`, and reads on its output how the tunnel is. `place` puts a script there
that runs this module; tunnels that are not of a hub are led by the frpc that was there before.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
import tempfile
import tomllib
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from envhub.cli.sandboxes.tunnels.carrier import Carrier, TunnelGone

VERSION = "0.66.0"  # that all releases of prime_tunnel ask for, 0.1.0 to 0.1.15
MARK = "# Stands in the place of frpc: `hub sandbox serve` put it here."
ORIGINAL = ".original"


def place(home: Path) -> bool:
    """Below this home. Whether it is new there. Raises OSError."""
    program, version = home / ".prime/bin/frpc", home / ".prime/bin/.frpc_version"
    text = f'#!/bin/sh\n{MARK}\nexec {shlex.quote(sys.executable)} -P -m {__name__} "$0" "$@"\n'
    with suppress(FileNotFoundError):
        found = program.read_bytes()
        if found == text.encode():
            return False
        if MARK.encode() not in found[:1000]:
            os.replace(program, program.with_name(program.name + ORIGINAL))
    program.parent.mkdir(parents=True, exist_ok=True)
    if not version.exists():
        version.write_text(VERSION)
    with tempfile.NamedTemporaryFile("w", dir=program.parent, delete=False) as file:
        file.write(text)
    os.chmod(file.name, 0o755)  # noqa: S103 - a program, as frpc is
    os.replace(file.name, program)
    return True


def main(script: str, arguments: list[str]) -> int:
    """The exit status. `script` is what stands in the place of frpc."""
    carrier = carrier_of(arguments)
    if carrier is None:
        original = script + ORIGINAL
        if not os.path.exists(original):
            _say("E", f"this frpc leads tunnels to a hub only: remove {script} to have the original fetched again")
            return 1
        os.execv(original, [original, *arguments])  # noqa: S606 - what prime_tunnel meant to start
    try:
        asyncio.run(_until_told(carrier))
    except TunnelGone as error:
        _say("E", f"connect to server error: tunnel not registered ({error})")
        return 1
    return 0


def carrier_of(arguments: list[str]) -> Carrier | None:
    """None where they are no tunnel of a hub."""
    if len(arguments) != 2 or arguments[0] != "-c":
        return None
    try:
        settings = tomllib.loads(Path(arguments[1]).read_text())
        address, proxy = str(settings["auth"]["token"]), settings["proxies"][0]
        if not address.startswith(("http://", "https://")):
            return None
        return Carrier(address, str(proxy["localIP"]), int(proxy["localPort"]), _say)
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return None


async def _until_told(carrier: Carrier) -> None:
    """Carries until it is terminated."""
    carrying = asyncio.ensure_future(carrier.carry())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, carrying.cancel)
    with suppress(asyncio.CancelledError):
        await carrying


def _say(level: str, text: str) -> None:
    """As frpc does: prime_tunnel knows lines by their form."""
    print(f"{datetime.now():%Y-%m-%d %H:%M:%S.%f}"[:23] + f" [{level}] [hub] {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
