from __future__ import annotations

import os

import pytest

from workers.sandbox import BoxSpec, Sandbox, box

pytestmark = pytest.mark.sandbox


async def test_what_commands_leave_running_holds_few_descriptors_of_ours(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(box, "MOST_LEFT", 6)
    async with sandbox.create(BoxSpec()) as made:
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(10):
            await made.exec(["sh", "-c", "sleep 60 &"])
        assert len(os.listdir("/proc/self/fd")) == before + 6
        assert (await made.exec(["sh", "-c", "pgrep -c sleep"])).stdout == b"10\n"
        await made.exec(["pkill", "sleep"])
        assert (await made.exec(["echo", "still"])).stdout == b"still\n"
