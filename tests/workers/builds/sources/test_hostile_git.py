"""What a hostile git server may not do to a worker: real git against a server on loopback that lies."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
from aiohttp import web
from envhub.errors import PackageError
from envhub.packaging import references

from tests.workers.git_server import GitServer
from workers.builds.errors import BuildFailed, HostsNeeded
from workers.builds.sources.git_repository import Repository, open_repository

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.fixture
async def asked(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[web.Request]]:
    """Requests of a server that answers 401; `base` has its address."""
    seen: list[web.Request] = []

    async def refuse(request: web.Request) -> web.Response:
        seen.append(request)
        return web.Response(status=401, headers={"WWW-Authenticate": "Basic realm=x"})

    async for url in serving(refuse):
        monkeypatch.setenv("HOSTILE", url)
        yield seen


async def serving(handler: Handler) -> AsyncIterator[str]:
    """The address of an HTTP server with one handler."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handler)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


def reference(url: str, ref: str = "main") -> references.DirectReference:
    found = references.read(f"lib @ git+{url}/lib@{ref}")
    assert found is not None
    return found


async def pinned(url: str, ref: str = "main") -> str:
    async with open_repository(reference(url, ref), f"{url}/lib") as repository:
        return await repository.pin()


async def test_no_credentials_of_the_workers_user_leave(
    asked: list[web.Request], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helper = f"!touch {tmp_path}/helped; echo username=me; echo password=secret"
    header = "Authorization: Bearer secret"
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password secret\n")
    (tmp_path / ".gitconfig").write_text(f'[credential]\n\thelper = "{helper}"\n[http]\n\textraHeader = {header}\n')
    askpass = tmp_path / "askpass"
    askpass.write_text(f"#!/bin/sh\ntouch {tmp_path}/helped\necho secret\n")
    askpass.chmod(0o755)
    for name, value in {"HOME": str(tmp_path), "GIT_ASKPASS": str(askpass), "SSH_ASKPASS": str(askpass)}.items():
        monkeypatch.setenv(name, value)
    for name, value in {"COUNT": "1", "KEY_0": "http.extraHeader", "VALUE_0": header}.items():
        monkeypatch.setenv(f"GIT_CONFIG_{name}", value)
    with pytest.raises(BuildFailed):
        await pinned(os.environ["HOSTILE"])
    assert asked
    assert [request.headers.get("Authorization") for request in asked] == [None] * len(asked)
    assert not (tmp_path / "helped").exists()


@pytest.mark.parametrize("to", ["ext::sh -c 'touch /tmp/x'", "file:///etc", "git://127.0.0.1/x", "ssh://127.0.0.1/x"])
async def test_other_transports_are_closed(tmp_path: Path, to: str) -> None:
    """Also where a mirror leads there by mistake."""
    async with open_repository(reference("https://example.org"), to) as repository:
        with pytest.raises(BuildFailed, match="not allowed"):
            await repository.pin()


async def test_what_git_is_told_never_fills_memory() -> None:
    async def lie(request: web.Request) -> web.StreamResponse:
        head = b"001e# service=git-upload-pack\n0000"
        lines = b"".join(b"003f" + b"%040x" % number + b" refs/heads/%07d\n" % number for number in range(200_000))
        return web.Response(body=head + lines + b"0000", content_type="application/x-git-upload-pack-advertisement")

    async for url in serving(lie):
        with pytest.raises((BuildFailed, HostsNeeded)):
            await pinned(url)


async def test_a_repository_of_a_few_large_files_is_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.venvs.safe_git.MAX_BYTES", 4 * 1024**2)
    async with GitServer(tmp_path / "git").serve() as server:
        files = {f"{number}": os.urandom(700_000).hex() for number in range(8)}
        commit = server.commit("lib", files)
        async with open_repository(reference(server.url, commit), f"{server.url}/lib") as repository:
            with pytest.raises(BuildFailed):
                await repository.archive(commit)
            assert _size(repository) < 9 * 1024**2  # it is tried twice


async def test_a_pyproject_of_many_megabytes_is_read_in_part(tmp_path: Path) -> None:
    async with GitServer(tmp_path / "git").serve() as server:
        commit = server.commit("lib", {"pyproject.toml": "#" * 20_000_000})
        async with open_repository(reference(server.url, commit), f"{server.url}/lib") as repository:
            await repository.archive(commit)
            assert len(await repository.read(commit, "pyproject.toml")) <= 4 * 1024**2


async def test_submodules_are_not_fetched(tmp_path: Path, asked: list[web.Request]) -> None:
    async with GitServer(tmp_path / "git").serve() as server:
        inner = f'[submodule "x"]\n\tpath = x\n\turl = {os.environ["HOSTILE"]}/internal\n'
        commit = server.commit("lib", {".gitmodules": inner})
        async with open_repository(reference(server.url, commit), f"{server.url}/lib") as repository:
            await repository.archive(commit)
    assert asked == []


@pytest.mark.parametrize(
    "address",
    [
        "git+https://h/r@--upload-pack=touch",
        "git+https://h/r@-x",
        "git+https://h/r#subdirectory=../../etc",
        "git+https://h/r#subdirectory=a/%2e%2e/%2e%2e/b",
        "git+ssh://git@h/r",
        "git+file:///etc",
        "git+ext::sh -c x",
        "git+https://user:secret@h/r",
    ],
)
def test_addresses_that_mean_harm_are_refused_when_they_are_read(address: str) -> None:
    with pytest.raises(PackageError):
        references.read(f"lib @ {address}")


def _size(repository: Repository) -> int:
    return sum(path.stat().st_size for path in repository.work.rglob("*") if path.is_file())
