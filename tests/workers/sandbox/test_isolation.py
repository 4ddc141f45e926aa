"""What a bwrap box keeps while it refuses, and how it tells of limits."""

import asyncio
import os
from pathlib import Path

import pytest

from workers.sandbox import Bind, BoxFailed, BoxSpec, Limits, NotEnforceable, Sandbox, Unavailable, backend, venv_binds
from workers.sandbox.bwrap import BwrapSandbox
from workers.sandbox.cgroups import NONE
from workers.sandbox.layers import PYTHON

pytestmark = pytest.mark.sandbox
MIB = 1024 * 1024

ORDINARY = {
    "threads": "import threading as t; x = [t.Thread(target=print) for _ in range(9)]; [i.start() for i in x]",
    "subprocess": "import subprocess; assert subprocess.run(['echo', 'x'], capture_output=True).stdout == b'x\\n'",
    "multiprocessing": "import multiprocessing as m; assert m.Pool(2).map(abs, [-1, -2]) == [1, 2]",
    "shared memory": "from multiprocessing.shared_memory import SharedMemory as s; s(create=True, size=99).unlink()",
    "asyncio subprocess": "import asyncio as a; a.run(a.create_subprocess_exec('true'))",
    "own sockets": "import socket as s; x = s.create_server(('127.0.0.1', 0)); s.create_connection(x.getsockname())",
    "sqlite": "import sqlite3; sqlite3.connect('/box/x.db').execute('create table t (a)')",
    "a terminal": "import pty, os; os.close(pty.openpty()[0])",
    "its own name": "import pwd, os; assert pwd.getpwuid(os.getuid()).pw_name == 'sandbox'",
}


@pytest.mark.parametrize("name", ORDINARY)
async def test_ordinary_programs_work(sandbox: Sandbox, name: str) -> None:
    async with sandbox.create(BoxSpec()) as box:
        result = await box.exec([PYTHON, "-c", ORDINARY[name]])
    assert result.exit_code == 0, result.stderr


async def test_too_much_memory_is_told_apart_from_a_crash(sandbox: Sandbox) -> None:
    async with sandbox.create(BoxSpec(limits=Limits(memory_bytes=100 * MIB))) as box:
        result = await box.exec([PYTHON, "-c", "x = b'x' * (300 << 20); import time; time.sleep(5)"])
    assert (result.oom_killed, result.exit_code) == (True, 137)


async def test_without_cgroups_too_much_memory_is_told_as_well(root: Path) -> None:
    async with BwrapSandbox(root, tree=NONE).create(BoxSpec(limits=Limits(memory_bytes=100 * MIB))) as box:
        result = await box.exec([PYTHON, "-c", "x = b'x' * (300 << 20); import time; time.sleep(5)"])
    assert (result.oom_killed, result.exit_code) == (True, 137)


async def test_without_cgroups_a_cpu_limit_is_refused_and_the_default_shown(root: Path) -> None:
    sandbox = BwrapSandbox(root, tree=NONE)
    assert any("CPU" in downgrade for downgrade in sandbox.facts.downgrades)
    with pytest.raises(NotEnforceable):
        async with sandbox.create(BoxSpec(limits=Limits(cpus=1.0))):
            pass


async def test_a_full_disk_is_an_ordinary_error(sandbox: Sandbox) -> None:
    async with sandbox.create(BoxSpec(limits=Limits(disk_bytes=8 * MIB))) as box:
        result = await box.exec(["sh", "-c", "head -c 5M /dev/zero > a; head -c 5M /dev/zero > /tmp/b"])
    assert b"No space left" in result.stderr


async def test_a_directory_under_a_closed_home_can_be_bound(sandbox: Sandbox, root: Path) -> None:
    closed = root / "home"
    closed.mkdir(mode=0o700)
    (closed / "inner").mkdir()
    (closed / "inner" / "file").write_text("seen")
    async with sandbox.create(BoxSpec(binds=(Bind(closed / "inner", "/opt/inner"),))) as box:
        assert (await box.exec(["cat", "/opt/inner/file"])).stdout == b"seen"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's boxes have another uid")
async def test_a_directory_that_the_boxes_uid_cannot_read_is_refused_by_name(sandbox: Sandbox, root: Path) -> None:
    (root / "closed").mkdir(mode=0o700)
    with pytest.raises(BoxFailed, match="chmod o\\+rx"):
        async with sandbox.create(BoxSpec(binds=(Bind(root / "closed", "/opt/x"),))):
            pass


async def test_a_virtual_environment_works_at_its_own_path(sandbox: Sandbox) -> None:
    venv = Path(os.environ.get("VIRTUAL_ENV") or Path(__file__).parents[3] / ".venv")
    if not (venv / "bin" / "python").exists():
        pytest.skip("the tests do not run in a virtual environment")
    async with sandbox.create(BoxSpec(binds=venv_binds(venv))) as box:
        result = await box.exec([str(venv / "bin" / "python"), "-c", "import pydantic; print(pydantic.__file__)"])
    assert str(venv) in result.stdout.decode(), result.stderr


async def test_a_missing_bind_says_which(sandbox: Sandbox) -> None:
    with pytest.raises(BoxFailed, match="/no/such/place"):
        async with sandbox.create(BoxSpec(binds=(Bind(Path("/no/such/place"), "/opt/x"),))):
            pass


async def test_the_hosts_other_users_cannot_reach_a_boxes_sockets(sandbox: Sandbox, root: Path) -> None:
    sockets = root / "s"
    sockets.mkdir(mode=0o755)
    async with sandbox.create(BoxSpec(network="gateway", sockets=sockets)) as box:
        assert sockets.stat().st_mode & 0o777 == 0o700
        assert (await box.exec(["ls", "/run/hub"])).exit_code == 0


async def test_no_secret_is_in_an_argument_on_the_host(sandbox: Sandbox) -> None:
    async with sandbox.create(BoxSpec(env={"KEY": "needle-in-argv"})) as box:
        job = await box.start_job(["sleep", "30"], env={"OTHER": "needle-in-argv"})
        lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
        assert not [line for line in lines if b"needle-in-argv" in line]
        await job.kill()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives each box its own uid")
async def test_every_box_has_a_uid_of_its_own(sandbox: Sandbox, root: Path) -> None:
    async with sandbox.create(BoxSpec()) as one, sandbox.create(BoxSpec()) as two:
        text = [(root / "boxes" / box.id / "box.json").read_text() for box in (one, two)]
        uids = {line.split('"uid": ')[1].split(",")[0] for line in text}
    assert len(uids) == 2
    assert "0" not in uids


async def test_many_boxes_at_once(sandbox: Sandbox) -> None:
    async def one(number: int) -> bytes:
        async with sandbox.create(BoxSpec()) as box:
            return (await box.exec(["echo", str(number)])).stdout

    assert await asyncio.gather(*map(one, range(12))) == [f"{number}\n".encode() for number in range(12)]


def test_the_process_backend_wants_two_settings(root: Path) -> None:
    with pytest.raises(Unavailable, match="WORKER_SANDBOX_ACCEPT_NO_ISOLATION"):
        backend("process", root)
    assert not backend("process", root, accept_no_isolation=True).facts.isolated
