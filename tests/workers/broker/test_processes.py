"""What is given to a command that does not take it."""

from __future__ import annotations

import pytest

from workers.broker.processes import Input
from workers.sandbox import SandboxError


async def test_a_program_that_does_not_read_is_said() -> None:
    source = Input.pipe()
    with pytest.raises(SandboxError, match="does not read"):
        await source.write(bytes(10**6), 0.05)
    source.close()


async def test_what_comes_after_the_end_of_a_terminal_is_dropped() -> None:
    source = Input.terminal((24, 80), lambda data: None)
    source.hand_over()
    await source.write(bytes(10**5))
    source.end_of_file()
    source.close()
