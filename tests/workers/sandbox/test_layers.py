"""A private writable layer over a directory that is bound in; what a host without layers does instead."""

import os
import shutil
import subprocess
from pathlib import Path

import envhub
import envhub.proxies
import pytest

from workers.sandbox import Bind, BoxSpec, Sandbox, backend, layers
from workers.sandbox.interface import MIB, Limits

pytestmark = pytest.mark.sandbox
PLAIN_USER = 61_234


@pytest.fixture
def beneath(root: Path) -> Path:
    """A directory as an environment is."""
    folder = root / "beneath"
    (folder / "package").mkdir(parents=True)
    (folder / "package" / "data.txt").write_text("shipped")
    return folder


def spec(beneath: Path, **limits: int) -> BoxSpec:
    return BoxSpec(binds=(Bind(beneath, "/opt/x", layer=True),), limits=Limits(**limits))


async def test_a_package_writes_beside_itself_and_nobody_else_sees_it(sandbox: Sandbox, beneath: Path) -> None:
    write = "cd /opt/x/package && mkdir data && echo new > data/new && echo changed > data.txt && cat data/new data.txt"
    async with sandbox.create(spec(beneath)) as one, sandbox.create(spec(beneath)) as two:
        result = await one.exec(["sh", "-c", write])
        assert result.stdout == b"new\nchanged\n", result.stderr
        assert (await two.exec(["ls", "/opt/x/package"])).stdout == b"data.txt\n"
    assert [path.name for path in (beneath / "package").iterdir()] == ["data.txt"]
    assert (beneath / "package" / "data.txt").read_text() == "shipped"


async def test_a_directory_is_renamed_and_removed_as_on_a_disk(sandbox: Sandbox, beneath: Path) -> None:
    code = "import shutil; shutil.move('/opt/x/package', '/opt/x/p'); shutil.rmtree('/opt/x/p')"
    async with sandbox.create(spec(beneath)) as box:
        assert (await box.exec(["python3", "-c", code])).stderr == b""
        assert (await box.exec(["ls", "/opt/x"])).stdout == b""


async def test_what_is_written_counts_towards_the_disk(sandbox: Sandbox, beneath: Path) -> None:
    async with sandbox.create(spec(beneath, disk_bytes=4 * MIB)) as box:
        result = await box.exec(["sh", "-c", "head -c 3M /dev/zero > /box/a; head -c 3M /dev/zero > /opt/x/b"])
    assert b"No space left" in result.stderr


async def test_without_a_layer_a_bind_stays_read_only(sandbox: Sandbox, beneath: Path) -> None:
    async with sandbox.create(BoxSpec(binds=(Bind(beneath, "/opt/x"),))) as box:
        result = await box.exec(["touch", "/opt/x/new"])
    assert b"Read-only file system" in result.stderr


async def test_a_host_without_layers_says_so_and_binds_read_only(
    root: Path, beneath: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(layers, "_known", {beneath.stat().st_dev: "no overlay here"})
    sandbox = backend("bwrap", root)
    assert any("cannot write beside themselves" in downgrade for downgrade in sandbox.facts.downgrades)
    async with sandbox.create(spec(beneath)) as box:
        assert b"Read-only file system" in (await box.exec(["touch", "/opt/x/new"])).stderr


def test_a_file_system_that_cannot_be_layered_is_found_by_trying() -> None:
    assert layers.trouble(Path("/proc"))


AS_PLAIN_USER = """
import asyncio, sys, tempfile
from pathlib import Path
from sandbox import Bind, BoxSpec, backend
async def main():
    spec = BoxSpec(binds=(Bind(Path(sys.argv[1]), "/opt/x", layer=True),))
    write = "cd /opt/x/package && echo new > new && echo more >> data.txt && cat data.txt"
    with tempfile.TemporaryDirectory() as name:
        async with backend("bwrap", Path(name)).create(spec) as box:
            print(await box.exec(["sh", "-c", write]))
asyncio.run(main())
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_plain_users_boxes_have_layers_too(beneath: Path, root: Path) -> None:
    """The sandbox package alone, under the system's Python: that of the tests may be closed to other users."""
    root.chmod(0o755)
    for path in (beneath, *beneath.rglob("*")):
        os.chown(path, PLAIN_USER, PLAIN_USER)
    shutil.copytree(Path(layers.__file__).parent, root / "copy" / "sandbox")
    (root / "copy" / "envhub").mkdir()
    for module in (envhub, envhub.proxies):  # all that it takes from there
        shutil.copy(str(module.__file__), root / "copy" / "envhub")
    user = ["setpriv", f"--reuid={PLAIN_USER}", f"--regid={PLAIN_USER}", "--clear-groups", "--"]
    argv = [*user, "/usr/bin/python3", "-c", AS_PLAIN_USER, str(beneath)]
    done = subprocess.run(argv, cwd=root / "copy", capture_output=True, text=True, env={"PATH": os.environ["PATH"]})
    assert "shippedmore" in done.stdout, done.stdout + done.stderr
    assert (beneath / "package" / "data.txt").read_text() == "shipped"


async def test_packages_keep_what_they_fetch_where_a_box_can_write(sandbox: Sandbox) -> None:
    code = "import os, sys; [os.makedirs(os.environ[name] + '/x') for name in sys.argv[1:]]; open('outputs', 'w')"
    names = ["HOME", "XDG_CACHE_HOME", "TMPDIR", "NLTK_DATA", "TIKTOKEN_CACHE_DIR", "HF_HOME"]
    async with sandbox.create(BoxSpec()) as box:
        result = await box.exec(["python3", "-c", code, *names])
    assert result.exit_code == 0, result.stderr
