"""Folders and ports that containers share with the box of their client, both of them real."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import pytest

from tests.factories.tar_bombs import BOMBS
from tests.workers.broker.docker.client import Client
from workers.broker.broker import Broker, BrokerSession
from workers.broker.docker import folders, serve_docker
from workers.broker.home import Home
from workers.sandbox import Box, BoxSpec, backend

pytestmark = pytest.mark.sandbox
SERVER = "import http.server as h; h.ThreadingHTTPServer(('', 8000), h.SimpleHTTPRequestHandler).serve_forever()"


class Here(Client[BrokerSession]):
    """On the image of these tests, from the box `home`."""

    image = "here"
    home: Box

    async def at_home(self, script: str) -> str:
        done = await self.home.exec(("sh", "-c", script))
        assert not done.exit_code, done.stderr
        return done.stdout.decode()

    async def until(self, number: int, path: str) -> None:
        """A file is in the sandbox of that number."""
        async with asyncio.timeout(20):
            while (await self.session.all()[number].exec(("test", "-e", path))).exit_code:
                await asyncio.sleep(0.05)

    async def end(self, container: str) -> int:
        _, told = await self.call("POST", f"/containers/{container}/wait")
        return int(told["StatusCode"])


@pytest.fixture
async def client(root: Path, broker: Broker) -> AsyncIterator[Here]:
    socket = root / "docker.sock"
    async with AsyncExitStack() as stack:
        home = Home(await stack.enter_async_context(backend("bwrap", root / "home").create(BoxSpec())))
        session = await stack.enter_async_context(broker.session())
        await stack.enter_async_context(serve_docker(socket, session, home))
        http = await stack.enter_async_context(aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(socket))))
        made = Here(socket, session, http)
        made.home = home.get()
        yield made


async def test_a_folder_is_there_and_what_changes_in_it_comes_back(client: Here) -> None:
    await client.at_home("mkdir -p /tmp/data/deep && echo given > /tmp/data/deep/a && chmod +x /tmp/data/deep/a")
    script = "cat deep/a && test -x deep/a && mkdir out && echo made > out/b && echo changed > deep/a"
    made = await client.run("sh", "-c", script, WorkingDir="/data", HostConfig={"Binds": ["/tmp/data:/data:rw"]})
    assert await client.end(made) == 0
    assert await client.at_home("cd /tmp/data && cat out/b deep/a && test -x deep/a") == "made\nchanged\n"
    _, told = await client.call("GET", f"/containers/{made}/json")
    assert (told["Mounts"][0]["Source"], told["Mounts"][0]["Destination"]) == ("/tmp/data", "/data")


async def test_each_command_sees_what_the_client_changed_and_the_client_what_the_command_did(client: Here) -> None:
    made = await client.run("sleep", "60", HostConfig={"Binds": ["/tmp/data:/data"]})
    for number in range(3):  # within one second, so that whole seconds would not tell them apart
        await client.at_home(f"echo {number} > /tmp/data/question")
        assert await client.exec(made, "sh", "-c", "cat /data/question | tee /data/answer") == (
            0,
            f"{number}\n",
            "",
        )
        assert await client.at_home("cat /tmp/data/answer") == f"{number}\n"
    machine = client.session.all()[0]
    assert all("tar" not in " ".join(one.argv) for one in machine.commands)
    assert (await client.call("DELETE", f"/containers/{made}", params={"force": "1"}))[0] == 204


async def test_containers_of_one_volume_do_not_undo_each_others_work(client: Here) -> None:
    assert (await client.call("POST", "/volumes/create", {"Name": "shared"}))[0] == 201
    binds = {"HostConfig": {"Mounts": [{"Type": "volume", "Source": "shared", "Target": "/data"}]}}
    first, second = [await client.run("sleep", "60", **binds) for _ in range(2)]
    await client.exec(first, "sh", "-c", "echo 1 > /data/a")
    slow = "touch /data/began; until [ -e /tmp/go ]; do sleep 0.05; done; echo 3 > /data/b"
    async with asyncio.TaskGroup() as both:
        both.create_task(client.exec(first, "sh", "-c", slow))
        await client.until(0, "/data/began")
        await client.exec(second, "sh", "-c", "echo 2 > /data/a")
        await client.session.all()[0].exec(("touch", "/tmp/go"))
    assert (await client.exec(second, "cat", "/data/a", "/data/b"))[1] == "2\n3\n"
    assert (await client.exec(first, "cat", "/data/a"))[1] == "2\n"


async def test_what_goes_on_beside_commands_is_not_undone_by_their_copies(client: Here) -> None:
    count = "for i in $(seq 400); do echo $i >> /data/log; sleep 0.01; done"
    made = await client.run("sh", "-c", count, HostConfig={"Binds": ["/tmp/data:/data"]})
    for number in range(4):
        await client.at_home(f"echo {number} > /tmp/data/other")
        assert (await client.exec(made, "cat", "/data/other"))[1] == f"{number}\n"
    assert await client.end(made) == 0
    assert await client.at_home("cat /tmp/data/log") == "".join(f"{line}\n" for line in range(1, 401))


async def test_of_what_both_sides_changed_between_commands_the_clients_stays(client: Here) -> None:
    made = await client.run("sleep", "60", HostConfig={"Binds": ["/tmp/data:/data"]})
    await client.session.all()[0].exec(("sh", "-c", "echo container | tee /data/once /data/both"))  # beside the engine
    await client.at_home("echo client > /tmp/data/both")
    assert (await client.exec(made, "cat", "/data/both"))[1] == "client\n"
    assert await client.at_home("cat /tmp/data/once /tmp/data/both") == "container\nclient\n"


async def test_what_is_read_only_does_not_come_back_and_files_go_alone(client: Here) -> None:
    await client.at_home("mkdir /tmp/ro; echo 1 > /tmp/ro/a; echo 1 > /tmp/rw")
    binds = ["/tmp/ro:/ro:ro", "/tmp/rw:/file"]
    made = await client.run("sh", "-c", "echo 2 > /ro/a; echo 2 > /file", HostConfig={"Binds": binds})
    assert await client.end(made) == 0
    assert await client.at_home("cat /tmp/ro/a /tmp/rw") == "1\n2\n"


async def test_a_container_writes_nowhere_but_into_its_folder(client: Here) -> None:
    """It runs what a model wrote, and the client's box scores it."""
    await client.at_home("mkdir -p /tmp/data /tmp/score && echo 0 > /tmp/score/reward")
    made = await client.run("sleep", "60", HostConfig={"Binds": ["/tmp/data:/data"]})
    await client.at_home("ln -s /tmp/score /tmp/data/link")  # even where the client itself made a way
    script = (
        "cd /data && rm -f link && mkdir link && echo 1 > link/reward && ln -s /tmp/score/reward also && echo 1 > x"
    )
    code, _, said = await client.exec(made, "sh", "-c", script)
    assert code == 0
    assert "were not copied back" in said
    assert await client.at_home("cat /tmp/score/reward; ls /tmp/data") == "0\nlink\nx\n"


async def test_too_much_is_told_where_the_command_said_its_errors(
    client: Here, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folders, "MOST_BYTES", 1024**2)
    made = await client.run("sleep", "60", HostConfig={"Binds": ["/tmp/data:/data"]})
    code, _, said = await client.exec(made, "sh", "-c", "head -c 3000000 /dev/zero > /data/much; exit 3")
    assert code == 3
    assert "/data has more than" in said


@pytest.mark.parametrize("bomb", BOMBS)
def test_an_archive_whose_headers_would_take_much_memory_does_not_come_back(bomb: str) -> None:
    """A container's tar is its own."""
    with pytest.raises(folders.CopyFailed, match=r"too large|is sparse"):
        folders._files_of(io.BytesIO(BOMBS[bomb]))


async def test_a_published_port_leads_from_the_clients_loopback_into_the_container(client: Here) -> None:
    ports = {"PortBindings": {"8000/tcp": [{"HostPort": ""}, {"HostPort": "8642"}]}}
    made = await client.run("python3", "-c", SERVER, WorkingDir="/etc", HostConfig=ports)
    _, told = await client.call("GET", f"/containers/{made}/json")
    chosen, fixed = told["NetworkSettings"]["Ports"]["8000/tcp"]
    assert fixed == {"HostIp": "127.0.0.1", "HostPort": "8642"}
    fetch = "import sys, urllib.request as r; print(r.urlopen(f'http://127.0.0.1:{sys.argv[1]}/passwd').read())"
    for port in (chosen["HostPort"], "8642"):
        async with asyncio.timeout(20):
            while (done := await client.home.exec(("python3", "-c", fetch, port))).exit_code:
                await asyncio.sleep(0.1)  # the server has not begun
        assert b"root:/bin/sh" in done.stdout
    taken = await client.call("POST", "/containers/create", {"Image": "here", "Cmd": ["true"], "HostConfig": ports})
    status, said = await client.call("POST", f"/containers/{taken[1]['Id']}/start")
    assert (status, "8642 is already allocated" in said["message"]) == (500, True)
    await client.call("POST", f"/containers/{made}/stop", params={"t": "0"})
    assert (await client.home.exec(("python3", "-c", fetch, "8642"))).exit_code == 1
    assert (await client.call("POST", f"/containers/{taken[1]['Id']}/start"))[0] == 204


async def test_a_folder_that_cannot_be_read_whole_stops_the_container_from_starting(client: Here) -> None:
    await client.at_home("mkdir /tmp/data && echo 1 > /tmp/data/a && chmod 000 /tmp/data/a")
    body = {"Image": "here", "Cmd": ["true"], "HostConfig": {"Binds": ["/tmp/data:/data"]}}
    _, made = await client.call("POST", "/containers/create", body)
    status, said = await client.call("POST", f"/containers/{made['Id']}/start")
    assert (status >= 400, "Permission denied" in said["message"]) == (True, True), said
    await client.at_home("chmod 644 /tmp/data/a")
    assert (await client.call("POST", f"/containers/{made['Id']}/start"))[0] == 204
