"""Nothing outlives its owner: a launcher that was killed leaves nothing after the next sweep."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from workers.sandbox import BoxSpec, Sandbox, Unavailable, backend
from workers.sandbox.backends import commands_root
from workers.sandbox.owners import started_at
from workers.sandbox.records import Record, own_processes, sweep

pytestmark = pytest.mark.sandbox
OWNER = """
import asyncio, sys
from collections.abc import Callable, Iterator
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
    assert are_gone(record)
    assert not [path for path in record.cgroups if Path(path).exists()]
    assert list((root / "boxes").iterdir()) == []


def are_gone(record: Record) -> bool:
    """Whether the box's processes have ended; the dead take a moment to leave."""
    for _ in range(100):
        if not own_processes(record) and not sleepers(record.uid):
            return True
        time.sleep(0.02)
    return False


def sleepers(uid: int) -> list[Path]:
    return [path for path in Path("/proc").glob("[0-9]*") if path.exists() and uid and path.stat().st_uid == uid]


async def test_a_living_owners_box_is_not_swept(sandbox: Sandbox, root: Path) -> None:
    async with sandbox.create(BoxSpec()) as box:
        assert backend("bwrap", root).sweep() == []
        assert (await box.exec(["true"])).exit_code == 0


def test_a_reused_pid_is_not_taken_for_the_owner(root: Path) -> None:
    record = Record("x", os.getpid(), started_at(os.getpid()) - 1)
    assert not record.owner_lives()


Make = Callable[[Path], "tuple[subprocess.Popen[str], Path]"]
MAKER = """
import sys, time
from collections.abc import Callable, Iterator
from pathlib import Path
from workers.sandbox import socket_folder
with socket_folder(Path(sys.argv[1])) as folder:
    (folder / "gateway.sock").touch()
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def maker(root: Path) -> Iterator[Make]:
    """Starts processes that hold a socket folder for the sandbox at a path; `root` is their temporary directory."""
    started: list[subprocess.Popen[str]] = []

    def start(sandbox: Path) -> tuple["subprocess.Popen[str]", Path]:
        command, env = [sys.executable, "-c", MAKER, str(sandbox)], {**os.environ, "TMPDIR": str(root)}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
        started.append(process)
        assert process.stdout is not None
        return process, Path(process.stdout.readline().strip())

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("deep", [0, 60])
def test_socket_folders_of_the_dead_go_and_those_of_the_living_stay(
    root: Path,
    maker: Make,
    monkeypatch: pytest.MonkeyPatch,
    deep: int,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(root))
    at = root / ("d" * deep or "sandbox")
    (dead, left), (_, used) = maker(at), maker(at)
    assert left.parent == (root if deep else at / "sockets")
    assert len(os.fsencode(left / "gateway.sock")) < 108
    dead.kill()
    dead.wait()
    sweep(at)
    assert (left.exists(), used.exists()) == (False, True)


def test_what_another_pid_namespace_or_another_program_made_stays(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(root))
    others = [root / "envhub-1-2-3-0", root / "envhub-abc", root / "envhub-sandbox-0"]
    for other in others:
        other.mkdir()
    sweep(root / "sandbox")
    assert all(other.exists() for other in others)


def test_a_killed_command_leaves_nothing_after_the_next_one(root: Path) -> None:
    env = {**os.environ, "TMPDIR": str(root)}
    command = [sys.executable, "-m", "workers.sandbox", "run", "--"]
    killed = subprocess.Popen([*command, "sh", "-c", "echo up; sleep 4243"], stdout=subprocess.PIPE, text=True, env=env)
    with killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == "up\n"
        (path,) = root.glob("envhub-sandbox-*/boxes/*/box.json")
        record = Record(**json.loads(path.read_text()))
        killed.kill()
    assert subprocess.run([*command, "true"], env=env, timeout=60).returncode == 0
    assert not [group for group in record.cgroups if Path(group).exists()]
    assert are_gone(record)
    assert not path.exists()


def test_a_commands_directory_that_somebody_else_has_made_is_refused(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(root))
    (root / f"envhub-sandbox-{os.geteuid()}").symlink_to("/etc")
    with pytest.raises(Unavailable, match="not this user's own"):
        commands_root()


def test_a_broken_record_is_removed(root: Path) -> None:
    (root / "boxes" / "x").mkdir(parents=True)
    (root / "boxes" / "x" / "box.json").write_text("{")
    assert sweep(root) == []
    assert list((root / "boxes").iterdir()) == []
