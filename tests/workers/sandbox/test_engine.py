"""The engine's daemon: what it refuses, and that no death leaves a container behind."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from workers.sandbox import (
    Bind,
    BoxFailed,
    BoxGone,
    BoxKilled,
    BoxSpec,
    Limits,
    NotEnforceable,
    Sandbox,
    Unavailable,
    backend,
)
from workers.sandbox.doctor.own_image import OnImage
from workers.sandbox.engine.host import CGROUPS, cgroup_parent, usable_tree
from workers.sandbox.engine.wire import Failed, Hello, engine_socket, read
from workers.sandbox.watch import children_of

from .running_engine import RunningEngine

REPOSITORY = Path(__file__).resolve().parents[3]
pytestmark = [pytest.mark.sandbox, pytest.mark.matrix]
OWNER = """
import asyncio, sys
from pathlib import Path
from workers.sandbox import BoxSpec, backend
from workers.sandbox.doctor.own_image import OnImage
async def main():
    root = Path(sys.argv[1])
    boxes = OnImage(backend("podman", root, engine=Path(sys.argv[2])), root / "image")
    async with boxes.create(BoxSpec()) as box:
        await box.start_job(["sh", "-c", "setsid sleep 4242 & sleep 4242"])
        print(box.id, flush=True)
        await asyncio.sleep(600)
asyncio.run(main())
"""


def none_left(engine: RunningEngine) -> bool:
    """No process, and no folder, which is removed last; the dead take a moment."""
    for _ in range(400):
        if not engine.agents() and list((engine.socket.parent / "boxes").iterdir()) == []:
            return True
        time.sleep(0.05)
    return False


def groups_of(pid: int) -> list[Path]:
    """Its cgroups, of either version."""
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    paths = {path for _, _, path in (line.split(":", 2) for line in lines) if "/libpod-" in path}
    return [place for path in paths for place in Path("/sys/fs/cgroup").glob(f"**{path}")]


async def test_only_what_is_below_its_folders_is_shown(podman: OnImage) -> None:
    for source in ("/etc", "/var/lib", "/proc/1"):
        with pytest.raises(BoxFailed, match="outside of the folders"):
            async with podman.create(BoxSpec(binds=(Bind(Path(source), "/opt/x"),))):
                pass


async def test_a_link_does_not_lead_out_of_its_folders(podman: OnImage, root: Path) -> None:
    (root / "link").symlink_to("/etc")
    with pytest.raises(BoxFailed, match="outside of the folders"):
        async with podman.create(BoxSpec(binds=(Bind(root / "link", "/opt/x"),))):
            pass
    with pytest.raises(BoxFailed, match="outside of the folders"):
        async with OnImage(podman.sandbox, root / "link").create(BoxSpec()):
            pass


async def test_a_word_that_is_no_order_is_refused(engine: RunningEngine) -> None:
    with engine_socket() as connection:
        connection.connect(str(engine.socket))
        assert read(connection.recv(10_000), Hello) is not None
        connection.send(b'{"kind": "order", "privileged": true}')
        failed = read(await asyncio.to_thread(connection.recv, 10_000), Failed)
    assert failed is not None
    assert failed.refused


STRANGER = """
import os, sys
from workers.sandbox.watch import children_of
from workers.sandbox.engine.wire import engine_socket
connection = engine_socket()
os.setgroups([])
os.setresgid(54321, 54321, 54321)
os.setresuid(54321, 54321, 54321)
connection.connect(sys.argv[1])
"""


def test_another_user_of_the_host_gets_nothing(engine: RunningEngine) -> None:
    done = subprocess.run([sys.executable, "-c", STRANGER, str(engine.socket)], capture_output=True, text=True)
    assert "PermissionError" in done.stderr


PLAIN_PYTHON = Path("/usr/bin/python3")
PLAIN_WORKER = """
import asyncio, os, sys
from pathlib import Path
from workers.sandbox import BoxFailed, BoxSpec, backend
from workers.sandbox.doctor.own_image import OnImage, make_image
async def main():
    root = Path(sys.argv[1])
    boxes = OnImage(backend("podman", root, engine=Path(sys.argv[2])), make_image(root / "image"))
    async with boxes.create(BoxSpec()) as box:
        await box.put("/etc/changed", b"as root of the image")
        print(os.getuid(), (await box.exec(["stat", "-c", "%u", "/etc/changed", "/etc/passwd"])).stdout.split())
    try:
        async with OnImage(boxes.sandbox, Path("/usr")).create(BoxSpec()):
            pass
    except BoxFailed as error:
        print(error.message)
asyncio.run(main())
"""


@pytest.mark.skipif(not PLAIN_PYTHON.exists(), reason="a system Python only")
@pytest.mark.skipif(not REPOSITORY.stat().st_mode & 0o5, reason="the tree is closed to other users")
def test_a_worker_without_any_right_has_containers(root: Path) -> None:
    """Its own image, which on the host nobody else may read, is its root's."""
    os.chown(root, 54321, 54321)
    with tempfile.TemporaryDirectory(prefix="eg-", dir="/tmp") as name:
        Path(name).chmod(0o711)
        engine = RunningEngine(Path(name), "--user", "54321")
        engine.start()
        plain = ["setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups", "env", "-i", "PATH=/usr/bin:/bin"]
        command = [*plain, str(PLAIN_PYTHON), "-B", "-c", PLAIN_WORKER, str(root), str(engine.socket)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=REPOSITORY)
        engine.stop()
    if "No module named" in done.stderr or "SyntaxError" in done.stderr:
        pytest.skip("the system's Python is too old, or may not read the tree")
    told = ["54321 [b'0', b'0']", "/usr belongs to user 0, the worker is user 54321"]
    assert done.stdout.splitlines() == told, done.stderr


def test_a_folder_has_one_daemon(engine: RunningEngine) -> None:
    command = [sys.executable, "-m", "workers.sandbox.engine", "--socket", str(engine.socket), "--show", "/tmp"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 125
    assert "another daemon uses" in done.stderr


async def test_boxes_without_an_image_are_another_backends(engine: RunningEngine, root: Path) -> None:
    with pytest.raises(NotEnforceable, match="need an image"):
        async with backend("podman", root, engine=engine.socket).create(BoxSpec()):
            pass


def test_without_its_daemon_it_says_how_to_start_it(root: Path) -> None:
    with pytest.raises(Unavailable, match=r"python -m workers\.sandbox\.engine"):
        backend("podman", root, engine=root / "engine.sock")


async def test_limits_are_the_kernels(podman: OnImage) -> None:
    async with podman.create(BoxSpec(limits=Limits(memory_bytes=100 << 20, cpus=0.5))) as box:
        result = await box.exec(["python3", "-c", "x = b'x' * (300 << 20)"])
        assert (result.oom_killed, result.exit_code) == (True, 137)
        began = time.monotonic()
        used = float((await box.exec(["python3", "-c", BURN])).stdout)
        assert used / (time.monotonic() - began) < 0.75
        assert (await box.stats()).oom_kills == 1


BURN = """
import time
end = time.monotonic() + 1
while time.monotonic() < end: pass
print(time.process_time())
"""


async def test_nobody_in_it_ends_it_and_the_host_does(podman: OnImage, engine: RunningEngine) -> None:
    async with podman.create(BoxSpec()) as box:
        await box.exec(["sh", "-c", "kill -9 1; kill -9 -1"])
        assert (await box.exec(["echo", "there"])).stdout == b"there\n"
        (pid,) = engine.agents()
        groups = groups_of(pid)
        os.kill(pid, signal.SIGKILL)
        assert isinstance(await box.ended(), BoxKilled)
        with pytest.raises(BoxGone):
            await box.exec(["true"])
    assert none_left(engine)
    assert groups
    assert not [group for group in groups if group.exists()]


def test_a_killed_workers_containers_end_at_once(podman: OnImage, engine: RunningEngine, root: Path) -> None:
    command = [sys.executable, "-c", OWNER, str(root), str(engine.socket)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline().strip()
        assert len(engine.agents()) == 1
        owner.kill()
    assert none_left(engine)


async def test_a_killed_daemon_ends_its_boxes_and_the_next_sweeps(podman: OnImage, engine: RunningEngine) -> None:
    async with podman.create(BoxSpec()) as box:
        await box.start_job(["sleep", "4242"])
        engine.kill()
        assert isinstance(await box.ended(), BoxKilled)
    begun = asyncio.create_task(exit_code_of_true(podman))  # while there is no daemon
    await asyncio.sleep(0.1)
    await asyncio.to_thread(engine.start)
    assert await begun == 0
    assert none_left(engine)
    assert engine.leftovers() == {}


async def exit_code_of_true(sandbox: Sandbox) -> int:
    async with sandbox.create(BoxSpec()) as box:
        return (await box.exec(["true"])).exit_code


def test_what_the_engine_was_starting_when_its_daemon_died_goes_too(engine: RunningEngine) -> None:
    """`runc init`, of which the engine has no record."""
    tree = usable_tree()
    top = CGROUPS / "memory" if tree.driver == "v1" else CGROUPS
    left = top / cgroup_parent(tree, engine.socket.parent).lstrip("/") / "libpod-left"
    left.mkdir(parents=True)
    with subprocess.Popen(["sleep", "4242"]) as process:
        (left / "cgroup.procs").write_text(str(process.pid))
        engine.kill()
        engine.start()
        assert process.wait(30) == -signal.SIGKILL
    assert not left.exists()


async def test_nobody_but_its_user_reaches_the_engine_itself(engine: RunningEngine) -> None:
    folder = engine.socket.parent / "podman"
    assert folder.stat().st_mode & 0o077 == 0
    assert (folder / "podman.sock").stat().st_mode & 0o077 == 0


async def test_a_daemon_whose_engine_has_died_ends(podman: OnImage, engine: RunningEngine) -> None:
    async with podman.create(BoxSpec()) as box:
        assert engine.process is not None
        (service,) = [pid for pid in children_of(engine.process.pid) if b"system" in cmdline(pid)]
        os.kill(service, signal.SIGKILL)
        assert isinstance(await box.ended(), BoxKilled)
    assert engine.process.wait(30) == 125
    engine.start()
    assert none_left(engine)


def cmdline(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


async def test_many_come_and_go_and_leave_nothing(podman: OnImage, engine: RunningEngine) -> None:
    async def one(number: int) -> bytes:
        async with podman.create(replace(BoxSpec(), hostname=f"box-{number}")) as box:
            return (await box.exec(["hostname"])).stdout

    assert await asyncio.gather(*map(one, range(6))) == [f"box-{number}\n".encode() for number in range(6)]
    assert none_left(engine)
    assert engine.leftovers() == {}
