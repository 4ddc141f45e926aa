"""What clients of an engine see of the broker's sandboxes, by HTTP; the real clients: test_clients.py."""

from __future__ import annotations

import asyncio
import io
import socket
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.fakes.sandboxes import LACKING_IMAGE, FakeSession, fake_session
from tests.workers.broker.docker.client import Client
from workers.broker.docker import engine, output, serve_docker
from workers.broker.docker.output import Output
from workers.broker.home import Home
from workers.broker.interface import Stream
from workers.broker.pieces import OVERHEAD

FakeClient = Client[FakeSession]


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[FakeClient]:
    socket = tmp_path / "docker.sock"
    connector = aiohttp.UnixConnector(str(socket))
    async with (
        fake_session() as session,
        serve_docker(socket, session, Home()),
        aiohttp.ClientSession(connector=connector) as http,
    ):
        yield FakeClient(socket, session, http)


async def test_a_client_agrees_on_a_version(client: FakeClient) -> None:
    async with client.http.head("http://engine/_ping") as answer:
        assert (answer.status, answer.headers["Api-Version"], answer.headers["Ostype"]) == (200, "1.43", "linux")
    assert (await client.call("GET", "/version"))[1]["MinAPIVersion"] == "1.24"


async def test_a_container_runs_its_command_to_its_end(client: FakeClient) -> None:
    made = await client.run("sh", "-c", "echo out; echo err >&2; exit 3", Labels={"a": "b"})
    assert (await client.call("POST", f"/containers/{made}/wait"))[1] == {"StatusCode": 3}
    _, told = await client.call("GET", f"/containers/{made[:12]}/json")
    assert (told["State"]["Status"], told["State"]["ExitCode"]) == ("exited", 3)
    _, logs = await client.call("GET", f"/containers/{made}/logs?stdout=1&stderr=1")
    assert sorted(logs.split(b"\n")[:-1])[0].endswith((b"out", b"err"))
    assert (await client.call("GET", f"/containers/{made}/logs?stdout=1"))[1] == b"\x01\0\0\0\0\0\0\x04out\n"
    assert (await client.call("GET", "/containers/json"))[1] == []
    for query, found in (('{"label": ["a=b"]}', 1), ('{"label": ["a=c"]}', 0), ('{"name": ["container-"]}', 1)):
        listed = await client.call("GET", "/containers/json", params={"all": "1", "filters": query})
        assert len(listed[1]) == found
    assert (await client.call("DELETE", f"/containers/{made}"))[0] == 204
    (held,) = client.session.sandboxes.values()
    assert held.state == "stopped"


async def test_commands_are_executed_with_their_streams_and_input(client: FakeClient, tmp_path: Path) -> None:
    made = await client.run("sleep", "60", WorkingDir=str(tmp_path))
    script = "cat; echo $KEY; pwd >&2; exit 4"
    done = await client.exec(made, "sh", "-c", script, given=b"given\n", Env=["KEY=value"])
    assert done == (4, "given\nvalue\n", f"{tmp_path}\n")
    many = await client.exec(made, "head", "-c", "3000000", "/dev/zero")
    assert len(many[1]) == 3_000_000


async def test_a_command_begins_once_the_client_has_read_the_head(client: FakeClient, tmp_path: Path) -> None:
    """The docker package reads ahead, and loses output that it reads together with the head."""
    made, began = await client.run("sleep", "60"), tmp_path / "began"
    _, exec_ = await client.call("POST", f"/containers/{made}/exec", {"Cmd": ["touch", str(began)]})
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect(str(client.socket))
        head = f"POST /exec/{exec_['Id']}/start HTTP/1.1\r\nHost: engine\r\nContent-Type: application/json\r\n"
        stream.sendall(f"{head}Upgrade: tcp\r\nConnection: Upgrade\r\nContent-Length: 2\r\n\r\n{{}}".encode())
        await asyncio.sleep(0.3)
        assert not began.exists()
        assert b" 101 " in await asyncio.to_thread(stream.recv, 4096)
        assert await asyncio.to_thread(stream.recv, 4096) == b""
    assert began.exists()


async def test_a_bad_variable_of_a_command_is_refused_before_it_is_started(client: FakeClient) -> None:
    made = await client.run("sleep", "60")
    status, told = await client.call("POST", f"/containers/{made}/exec", {"Cmd": ["true"], "Env": ["=x"]})
    assert (status, "bad name" in told["message"]) == (422, True)


async def test_a_fault_while_a_command_is_started_ends_the_connection(
    client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*given: Any) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(engine.Engine, "start_exec", fail)
    async with asyncio.timeout(20):
        assert await client.exec(await client.run("sleep", "60"), "true") == (None, "", "")


async def test_a_client_that_reads_slowly_holds_its_command_back() -> None:
    class Process:
        held: list[bool] = []

        def hold_output(self, held: bool) -> None:
            self.held.append(held)

    written, process = Output(), Process()
    written.process = process  # type: ignore[assignment]
    with written.follow(past=False) as follower:
        for _ in range(6):
            written.feed("stdout", bytes(output.BEHIND // 4))
        assert process.held == [True]
        written.end()
        assert sum([len(data) async for _, data in follower]) == 6 * (output.BEHIND // 4)
        assert process.held == [True, False]
    for _ in range(8):
        written.feed("stdout", bytes(output.KEPT // 4))
    assert sum(len(data) for _, data in written.kept) <= output.KEPT


async def test_a_client_that_leaves_while_it_is_sent_earlier_output_holds_nothing_back(
    client: FakeClient, tmp_path: Path
) -> None:
    go_on, size = tmp_path / "go-on", 2 * output.BEHIND
    write = f"head -c {size} /dev/zero"
    made = await client.run("sh", "-c", f"{write}; until [ -e {go_on} ]; do sleep 0.05; done; {write}; exit 3")
    logs = f"/containers/{made}/logs?stdout=1"
    async with asyncio.timeout(60):
        while len((await client.call("GET", logs))[1]) < size:
            pass
        async with client.http.get(f"http://engine/v1.43{logs}&follow=1"):
            go_on.touch()
        assert (await client.call("POST", f"/containers/{made}/wait"))[1] == {"StatusCode": 3}


@pytest.mark.parametrize("streams", [("stdout",), ("stdout", "stderr")])
async def test_single_bytes_of_output_count_for_what_they_take(streams: tuple[Stream, ...]) -> None:
    written = Output(keep=20_000)
    with written.follow(past=False) as follower:
        for number in range(10_000):
            written.feed(streams[number % len(streams)], b"y")
    assert len(written.kept) * OVERHEAD <= written.kept.size <= 20_000
    assert follower.size == 10_000 + OVERHEAD * (3 if len(streams) == 1 else 10_000)


async def test_the_end_of_the_output_is_kept_and_its_last_lines_are_sent(client: FakeClient) -> None:
    written = Output(keep=OVERHEAD + 12)
    for number in range(100):
        written.feed("stdout", b"line %02d\n" % number)
    assert b"".join(data for _, data in written.kept) == b" 98\nline 99\n"
    made = await client.run("seq", "100")
    await client.call("POST", f"/containers/{made}/wait")
    _, sent = await client.call("GET", f"/containers/{made}/logs", params={"stdout": "1", "tail": "2"})
    assert sent[8:] == b"99\n100\n"


async def test_files_go_in_and_out_as_archives(client: FakeClient, tmp_path: Path) -> None:
    made, folder = await client.run("sleep", "60"), tmp_path / "in"
    folder.mkdir()
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        info = tarfile.TarInfo("a.txt")
        info.size = 5
        archive.addfile(info, io.BytesIO(b"hello"))
    where = f"/containers/{made}/archive"
    async with client.http.put(f"http://engine{where}", params={"path": str(folder)}, data=packed.getvalue()) as answer:
        assert answer.status == 200
    assert (folder / "a.txt").read_text() == "hello"
    status, content = await client.call("GET", where, params={"path": str(folder / "a.txt")})
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        taken = archive.extractfile("a.txt")
        assert taken is not None
        assert (status, taken.read()) == (200, b"hello")
    assert (await client.call("HEAD", where, params={"path": "/nothing/there"}))[0] == 404
    refused = await client.http.put(f"http://engine{where}", params={"path": str(folder / "a.txt")}, data=b"x")
    assert refused.status == 400


async def test_a_client_that_leaves_while_it_sends_an_archive_leaves_no_command_behind(client: FakeClient) -> None:
    made = await client.run("sleep", "60")
    (held,) = client.session.sandboxes.values()
    _, writer = await asyncio.open_unix_connection(client.socket)
    writer.write(f"PUT /containers/{made}/archive?path=/tmp HTTP/1.1\r\nHost: engine\r\n".encode())
    writer.write(b"Content-Length: 10240\r\n\r\nhalf a header")
    async with asyncio.timeout(20):
        while len(held.processes) < 3:  # the container's, stat, tar
            await asyncio.sleep(0.01)
        writer.close()
        assert (await held.processes[3].wait()).exit_code


async def test_it_is_stopped_killed_and_started_again(client: FakeClient) -> None:
    made = await client.run("sleep", "60")
    assert (await client.call("DELETE", f"/containers/{made}"))[0] == 409
    assert [(await client.call("POST", f"/containers/{made}/stop?t=5"))[0] for _ in range(2)] == [204, 304]
    assert (await client.call("POST", f"/containers/{made}/exec", {"Cmd": ["true"]}))[0] == 409
    assert [(await client.call("POST", f"/containers/{made}/start"))[0] for _ in range(2)] == [204, 304]
    assert (await client.call("POST", f"/containers/{made}/kill?signal=NONSENSE"))[0] == 400
    assert (await client.call("POST", f"/containers/{made}/kill?signal=SIGTERM"))[0] == 204
    assert (await client.call("POST", f"/containers/{made}/wait"))[1] == {"StatusCode": 143}
    assert (await client.call("DELETE", f"/containers/{made}?force=1"))[0] == 204
    assert (await client.call("GET", f"/containers/{made}/json"))[0] == 404


REFUSED: dict[str, tuple[dict[str, Any], int, str]] = {
    "a relative folder": ({"HostConfig": {"Binds": ["a/b:/x"]}}, 400, "neither an absolute path nor"),
    "a folder as the root": ({"HostConfig": {"Binds": ["/tmp:/"]}}, 400, "not the root"),
    "others' volumes": ({"HostConfig": {"VolumesFrom": ["other"]}}, 501, "name the volumes again"),
    "a UDP port": ({"HostConfig": {"PortBindings": {"53/udp": [{"HostPort": "53"}]}}}, 400, "no UDP"),
    "a GPU": ({"HostConfig": {"DeviceRequests": [{}]}}, 501, "no GPU"),
    "a network": ({"HostConfig": {"NetworkMode": "mine"}}, 501, "join no networks"),
    "a user": ({"User": "nobody"}, 501, "one user, root"),
    "no image": ({"Image": ""}, 400, "name the image"),
    "a bad variable": ({"Env": ["=x"]}, 422, "bad name"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_what_there_is_not_is_refused_in_words(client: FakeClient, name: str) -> None:
    body, status, words = REFUSED[name]
    found, told = await client.call("POST", "/containers/create", {"Image": "any", **body})
    assert (found, words in told["message"]) == (status, True), told
    assert not client.session.sandboxes


async def test_an_image_that_cannot_be_had_is_not_found(client: FakeClient) -> None:
    _, made = await client.call("POST", "/containers/create", {"Image": LACKING_IMAGE, "Cmd": ["true"]})
    status, told = await client.call("POST", f"/containers/{made['Id']}/start")
    assert (status, LACKING_IMAGE in told["message"]) == (404, True)


async def test_a_container_without_a_command_has_its_images(client: FakeClient) -> None:
    _, made = await client.call("POST", "/containers/create", {"Image": "any"})
    assert (await client.call("POST", f"/containers/{made['Id']}/start"))[0] == 400
    (held,) = client.session.sandboxes.values()
    held.default_command = ("sh", "-c", "exit 5")
    assert (await client.call("POST", f"/containers/{made['Id']}/start"))[0] == 204
    assert (await client.call("POST", f"/containers/{made['Id']}/wait"))[1] == {"StatusCode": 5}


async def test_the_output_of_a_container_that_is_removed_unstarted_ends(client: FakeClient) -> None:
    _, made = await client.call("POST", "/containers/create", {"Image": "any", "Cmd": ["true"]})
    following = {"stdout": "1", "follow": "1"}
    async with asyncio.timeout(20), asyncio.TaskGroup() as both:
        logs = both.create_task(client.call("GET", f"/containers/{made['Id']}/logs", params=following))
        await asyncio.sleep(0.1)
        await client.call("DELETE", f"/containers/{made['Id']}")
    assert logs.result() == (200, b"")


async def test_names_are_unique_and_what_has_ended_makes_room(
    client: FakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "CONTAINERS_KEPT", 2)
    body = {"Image": "any", "Cmd": ["sleep", "60"]}
    answers = [await client.call("POST", "/containers/create?name=mine", body) for _ in range(2)]
    assert [status for status, _ in answers] == [201, 409]
    first, second = await client.run("sleep", "60"), await client.run("sleep", "60")
    assert (await client.call("GET", "/containers/mine/json"))[0] == 404, "it never ran"
    assert (await client.call("POST", "/containers/create", body))[0] == 429
    assert {item["Id"] for item in (await client.call("GET", "/containers/json"))[1]} == {first, second}


async def test_it_is_for_the_rollout_that_the_runner_names(client: FakeClient) -> None:
    body = {"Image": "any", "Cmd": ["true"]}
    await client.call("POST", "/containers/create", body, headers={"X-Envhub-Rollout": "key"})
    (held,) = client.session.sandboxes.values()
    assert held.rollout == "key"


@pytest.mark.parametrize("path", ["/build", "/networks/create", "/commit", "/nothing"])
async def test_other_routes_say_what_there_is_instead(client: FakeClient, path: str) -> None:
    status, told = await client.call("POST", path, {})
    assert (status, bool(told["message"])) == (404 if path == "/nothing" else 501, True)
