"""Nothing outlives its owner: a launcher that was killed leaves nothing after the next sweep."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from workers.sandbox import BoxSpec, Sandbox, backend
from workers.sandbox.records import Record, own_processes, started_at, sweep

pytestmark = pytest.mark.sandbox
OWNER = """
import asyncio, sys
from pathlib import Path
from workers.sandbox import BoxSpec, backend
async def main():
    async with backend(sys.argv[1], Path(sys.argv[2]), accept_no_isolation=True).create(BoxSpec()) as box:
        await box.start_job(["sh", "-c", "setsid sleep 4242 & sleep 4242"])
        print(box.id, flush=True)
        await asyncio.sleep(600)
asyncio.run(main())
"""


def killed_owner(name: str, root: Path) -> tuple[str, Record]:
    """The record of a box whose owner was killed with SIGKILL."""
    owner = subprocess.Popen([sys.executable, "-c", OWNER, name, str(root)], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    box_id = owner.stdout.readline().strip()
    record = Record(**json.loads((root / "boxes" / box_id / "box.json").read_text()))
    assert own_processes(record)
    owner.send_signal(signal.SIGKILL)
    owner.wait(10)
    owner.stdout.close()
    return box_id, record


@pytest.mark.parametrize("name", ["bwrap", "process"])
def test_a_killed_owner_leaves_nothing_after_a_sweep(name: str, root: Path) -> None:
    box_id, record = killed_owner(name, root)
    assert sweep(root) == [box_id]
    for _ in range(100):
        if not own_processes(record) and not sleepers(record.uid):
            break
        time.sleep(0.02)
    assert own_processes(record) == []
    assert not [path for path in record.cgroups if Path(path).exists()]
    assert list((root / "boxes").iterdir()) == []


def sleepers(uid: int) -> list[Path]:
    return [path for path in Path("/proc").glob("[0-9]*") if path.exists() and uid and path.stat().st_uid == uid]


async def test_a_living_owners_box_is_not_swept(sandbox: Sandbox, root: Path) -> None:
    async with sandbox.create(BoxSpec()) as box:
        assert backend("bwrap", root).sweep() == []
        assert (await box.exec(["true"])).exit_code == 0


def test_a_reused_pid_is_not_taken_for_the_owner(root: Path) -> None:
    record = Record("x", os.getpid(), started_at(os.getpid()) - 1)
    assert not record.owner_lives()


def test_a_broken_record_is_removed(root: Path) -> None:
    (root / "boxes" / "x").mkdir(parents=True)
    (root / "boxes" / "x" / "box.json").write_text("{")
    assert sweep(root) == []
    assert list((root / "boxes").iterdir()) == []
