"""Hints from the broker: workers.tasks.listener as a child process, kept alive; each hint means "poll now"."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable
from contextlib import suppress

from workers.app import BrokerSettings
from workers.runs.children import Children

logger = logging.getLogger(__name__)
RESTART_S = 10.0


async def listen_forever(broker: BrokerSettings, children: Children, on_hint: Callable[[], None]) -> None:
    """Keep a listener running until cancelled. When it cannot run, polling alone finds the work."""
    while True:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "workers.tasks.listener",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        try:
            children.record(process.pid, what="hint listener")
            assert process.stdin is not None
            assert process.stdout is not None
            with suppress(ConnectionError):
                process.stdin.write(broker.model_dump_json().encode())
                process.stdin.close()
            while await process.stdout.read(4096):
                on_hint()
            await process.wait()
        except OSError as error:  # a full disk: its record could not be written
            logger.warning("hints cannot be listened to: %s", error)
            await process.wait()
        finally:
            await asyncio.to_thread(children.end, process.pid)
        logger.warning("the hint listener ended (%s); polling goes on", process.returncode)
        await asyncio.sleep(RESTART_S)
