"""The body of a sandbox run, over boxes of bwrap."""

from __future__ import annotations

import asyncio
import base64
import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, WSMsgType, WSServerHandshakeError
from envhub.protocol.runs import FailureKind
from envhub.protocol.sandboxes.sandboxes import SandboxState

from tests.fakes import echo_socket
from tests.fakes.host_image import OnlyBase
from tests.workers.sandboxes.conftest import Running, Start
from workers.runs.errors import RunFailed
from workers.sandbox import NotEnforceable
from workers.sandboxes import run as run_module

pytestmark = pytest.mark.sandbox


async def events(running: Running, pid: int, query: str = "") -> list[dict[str, Any]]:
    async with running.http.get(f"/processes/{pid}/output{query}") as answer:
        return [json.loads(line) async for line in answer.content]


def text_of(found: list[dict[str, Any]]) -> str:
    return b"".join(base64.b64decode(event["data"]) for event in found if event["kind"] == "output").decode()


async def test_a_command_gives_its_streams_and_its_status(running: Running) -> None:
    found = await running.exec("echo out; echo err >&2; cat; exit 3", stdin="given", env={"A": "b"})
    assert (found["stdout"], found["stderr"], found["exit_code"]) == ("out\ngiven", "err\n", 3)
    assert (await running.exec("sleep 9", timeout_s=0.1))["timed_out"]
    await asyncio.sleep(0.3)
    assert any("exit 3 in" in line for line in running.said)


@pytest.mark.parametrize("body", [{}, {"command": "a", "argv": ["b"]}, {"command": "a", "cwd": "x"}])
async def test_a_bad_request_is_told_what_is_wrong(running: Running, body: dict[str, Any]) -> None:
    answer = await running.http.post("/exec", json=body)
    assert answer.status == 422
    assert (await answer.json())["error"]["fields"]


@pytest.mark.parametrize("header", ["", "Bearer x", "Bearer \xe9"])
async def test_nobody_is_answered_without_the_secret(running: Running, header: str) -> None:
    async with ClientSession(headers={"Authorization": header}) as stranger:
        for path in ("/stats", "/ports/80/", "/nothing"):
            assert (await stranger.get(running.report.base_url + path)).status == 401


async def test_files_go_in_and_come_out_whole(running: Running) -> None:
    content = bytes(range(256)) * 9000
    assert (await running.http.put("/files?path=/tmp/a/b&mode=755", data=BytesIO(content))).status == 200
    assert (await running.exec("stat -c %a /tmp/a/b"))["stdout"] == "755\n"
    assert await (await running.http.get("/files?path=/tmp/a/b")).read() == content
    for path in ("", "relative", "/tmp/none", "/tmp/a"):
        assert (await running.http.get(f"/files?path={path}")).status == 422


async def test_a_file_beyond_the_limit_is_refused(start: Start) -> None:
    async with start(file_bytes=1000) as running:
        answer = await running.http.put("/files?path=/tmp/a", data=BytesIO(bytes(5_000_000)))
        assert (answer.status, (await answer.json())["error"]["code"]) == (413, "too_large")


async def test_a_process_is_followed_to_its_end_and_again_from_any_event(running: Running) -> None:
    answer = await running.http.post("/processes", json={"command": "echo a; sleep 0.1; echo b; exit 4"})
    pid = (await answer.json())["pid"]
    found = await events(running, pid)
    assert (text_of(found), found[-1]["kind"], found[-1]["exit_code"]) == ("a\nb\n", "end", 4)
    assert text_of(await events(running, pid, f"?after={found[0]['seq']}")) == "b\n"
    view = await (await running.http.get(f"/processes/{pid}")).json()
    assert (view["ended"], view["exit_code"], view["output_bytes"]) == (True, 4, 4)


async def test_input_reaches_a_process_and_can_end(running: Running) -> None:
    answer = await running.http.post("/processes", json={"argv": ["cat"], "stdin": True})
    pid = (await answer.json())["pid"]
    await running.http.post(f"/processes/{pid}/input", data=b"hello ")
    await running.http.post(f"/processes/{pid}/input?end=1", data=b"\x00world")
    assert text_of(await events(running, pid)) == "hello \x00world"


async def test_a_program_that_does_not_read_takes_a_part(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.sandboxes.process_api.INPUT_S", 0.1)
    answer = await running.http.post("/processes", json={"argv": ["sh", "-c", "sleep 1000"], "stdin": True})
    pid = (await answer.json())["pid"]
    answer = await running.http.post(f"/processes/{pid}/input?partial=1", data=bytes(1_000_000))
    assert 0 < (await answer.json())["bytes"] < 1_000_000
    await running.http.delete(f"/processes/{pid}")


async def test_a_terminal_has_a_size_that_changes(running: Running) -> None:
    size = {"rows": 31, "columns": 77}
    answer = await running.http.post("/processes", json={"argv": ["sh"], "terminal": size})
    pid = (await answer.json())["pid"]
    await running.http.post(f"/processes/{pid}/input", data=b"stty size; read x; stty size; exit 5\n")
    await asyncio.sleep(0.1)
    await running.http.post(f"/processes/{pid}/resize", json={"rows": 10, "columns": 20})
    await running.http.post(f"/processes/{pid}/input", data=b"\n")
    found = await events(running, pid)
    assert "31 77" in text_of(found)
    assert "10 20" in text_of(found)
    assert found[-1]["exit_code"] == 5


async def test_output_that_nobody_takes_is_bounded_and_told_as_lost(running: Running) -> None:
    answer = await running.http.post("/processes", json={"command": "head -c 20000000 /dev/zero"})
    pid = (await answer.json())["pid"]
    last = (await events(running, pid, "?after=999999"))[-1]
    assert last["count"] == 20_000_000
    kept = await events(running, pid)
    assert kept[0]["kind"] == "lost"
    assert len(text_of(kept)) <= 4 * 1024**2


async def test_who_reads_gets_all_of_it_however_fast_it_comes(running: Running) -> None:
    answer = await running.http.post("/processes", json={"command": "head -c 20000000 /dev/zero; exit 3"})
    pid, got = (await answer.json())["pid"], 0
    async with running.http.get(f"/processes/{pid}/output") as stream:
        await asyncio.sleep(0.2)  # it could be through by now
        async for line in stream.content:
            event = json.loads(line)
            assert event["kind"] != "lost"
            got += len(base64.b64decode(event["data"]))
    assert (got, event["exit_code"]) == (20_000_000, 3)


async def test_one_that_its_own_commands_killed_is_not_the_hosts_failure(running: Running) -> None:
    await running.http.post("/exec", json={"command": "kill -9 -1"})
    with pytest.raises(RunFailed) as failed:
        await asyncio.wait_for(running.task, 20)
    assert (failed.value.failure.kind, failed.value.failure.code) == (FailureKind.POLICY, "sandbox_ended_itself")
    assert "from within" in failed.value.failure.message


async def test_a_process_is_killed_and_then_takes_no_input(running: Running) -> None:
    pid = (await (await running.http.post("/processes", json={"command": "sleep 99"})).json())["pid"]
    await running.http.post(f"/processes/{pid}/signal", json={"number": 15})
    assert (await events(running, pid))[-1]["exit_code"] == 143
    assert (await running.http.delete(f"/processes/{pid}")).status == 200
    assert (await running.http.post(f"/processes/{pid}/input", data=b"x")).status == 409
    assert (await running.http.get("/processes/4711")).status == 404


async def test_a_port_answers_over_http(running: Running) -> None:
    await running.exec("echo hello > /tmp/index.html")
    await running.http.post("/processes", json={"command": "cd /tmp; exec python3 -m http.server 8123"})
    for _ in range(50):
        answer = await running.http.get("/ports/8123/index.html?a=b%20c")
        if answer.status == 200:
            break
        await asyncio.sleep(0.1)
    assert await answer.text() == "hello\n"
    assert (await running.http.get("/ports/8124/")).status == 502


async def test_a_port_takes_web_sockets_that_end_with_the_sandbox(running: Running) -> None:
    await running.http.put("/files?path=/tmp/echo.py", data=Path(echo_socket.__file__).read_bytes())
    await running.http.post("/processes", json={"command": "exec python3 /tmp/echo.py 8125"})
    for _ in range(50):
        if (await running.http.get("/ports/8125/")).status == 404:
            break
        await asyncio.sleep(0.1)
    with pytest.raises(WSServerHandshakeError) as caught:
        await running.http.ws_connect("/ports/8125/elsewhere")
    assert caught.value.status == 404
    async with running.http.ws_connect("/ports/8125/socket?a=b") as socket:
        await socket.send_str("hello")
        assert await socket.receive_str(timeout=10) == "hello /socket?a=b []"
        running.task.cancel()
        assert (await socket.receive(timeout=10)).type in {WSMsgType.CLOSE, WSMsgType.CLOSED}


GET = "python3 -c 'import urllib.request as web; print(web.urlopen(\"{url}\").read().decode())'"


async def test_public_addresses_have_what_the_hub_keeps_and_the_log_says_what_is_lacking(running: Running) -> None:
    found = await running.exec(GET.format(url="https://files.example.org/words.txt"))
    assert found["stdout"] == "kept words\n", found["stderr"]
    assert (await running.exec(GET.format(url="https://files.example.org/other.txt")))["exit_code"] == 1
    assert "no answer to GET https://files.example.org/other.txt: the hub keeps no such file" in running.said


async def test_models_are_called_with_a_token_that_never_enters_it(start: Start) -> None:
    async with start(models=("alice/stub",), model_token="hub_secret") as running:
        call = "curl -s $OPENAI_BASE_URL/chat/completions -d"
        found = await running.exec(f"""{call} '{{"model": "alice/stub"}}'; env""")
        assert json.loads(found["stdout"].partition("}")[0] + "}")["token"] == "Bearer hub_secret"
        assert "hub_secret" not in found["stdout"].partition("}")[2]
        for body, words in (('{"model": "bob/other"}', "may not call"), ("{", "no JSON"), ("[]", "may not call")):
            assert words in (await running.exec(f"{call} '{body}'"))["stdout"]


async def test_the_commands_and_the_use_are_told(running: Running) -> None:
    await running.exec("echo one")
    (command,) = (await (await running.http.get("/commands")).json())["items"]
    assert (command["argv"], command["output"]) == (["/bin/sh", "-c", "echo one"], "one")
    stats = await (await running.http.get("/stats")).json()
    assert "memory_bytes" in stats
    assert running.lease.spent_s() >= (stats["cpu_seconds"] or 0.0), "of its run"


@pytest.mark.parametrize("wanted", [{"timeout_s": 0.3}, {"idle_s": 0.3}])
async def test_an_end_by_time_is_reported_and_is_no_failure(start: Start, wanted: dict[str, Any]) -> None:
    async with start(**wanted) as running:
        pid = (await (await running.http.post("/processes", json={"command": "true"})).json())["pid"]
        await events(running, pid)
        last = await asyncio.wait_for(running.reports.get(), 10)
        assert last.state is SandboxState.TIMED_OUT
        await running.task


async def test_an_image_that_is_lacking_fails_the_run_for_good(start: Start) -> None:
    with pytest.raises(RunFailed, match="no image") as caught:
        async with start(image="nothing:latest"):
            pass
    assert (caught.value.failure.kind, caught.value.failure.code) == ("environment", "image_lacking")


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (OSError("the disk is full"), "infrastructure", "sandbox_failed"),
        (NotEnforceable("no limit of CPU here"), "environment", "limit_not_enforceable"),
    ],
)
async def test_a_sandbox_that_cannot_begin_fails_by_whose_fault_it_is(
    start: Start, monkeypatch: pytest.MonkeyPatch, error: Exception, kind: str, code: str
) -> None:
    monkeypatch.setattr(OnlyBase, "using", lambda self, name: (_ for _ in ()).throw(error))
    with pytest.raises(RunFailed, match=str(error)) as caught:
        async with start():
            pass
    assert (caught.value.failure.kind, caught.value.failure.code) == (kind, code)


SIBLINGS = {
    "at_once": 2,
    "cpus": 0.5,
    "memory_mb": 256,
    "disk_mb": 64,
    "origin": "https://hub.example/sandbox-clients/t",
}
SERVICE = "/prime/api/v1"
GATEWAY = "/prime/gateway/box"
WISH = {"name": "x", "docker_image": "hub/base", "cpu_cores": 2, "memory_gb": 2, "disk_size_gb": 1}


async def test_programs_outside_have_sandboxes_beside_it_within_the_hubs_limits(start: Start) -> None:
    async with start(siblings=SIBLINGS) as running:
        made = [await (await running.http.post(f"{SERVICE}/sandbox", json=WISH)).json() for _ in range(2)]
        ids = [one["id"] for one in made]
        seen = await (await running.http.get(f"{SERVICE}/sandbox")).json()
        assert {one["id"] for one in seen["sandboxes"]} == set(ids), "the one that keeps them is not among them"
        assert (made[0]["cpuCores"], made[0]["memoryGB"]) == (1, 1)
        access = await (await running.http.post(f"{SERVICE}/sandbox/{ids[0]}/auth")).json()
        assert access["gateway_url"] == "https://hub.example/sandbox-clients/t/prime/gateway"
        asked = {"command": "echo hello", "sandbox_id": ids[0]}
        done = await running.http.post(f"/prime/gateway/{access['user_ns']}/{ids[0]}/exec", json=asked)
        assert (await done.json())["stdout"] == "hello\n"
        refused = await running.http.post(f"{SERVICE}/sandbox", json=WISH)
        assert refused.status == 429
        assert "--at-once" in await refused.text()
        tunnel = await running.http.post(f"{SERVICE}/tunnel", json={"local_port": 80})
        assert (await tunnel.json())["frp_token"].startswith("https://hub.example/sandbox-clients/t/prime/")


async def test_without_siblings_clients_find_what_is_done_inside_it_and_nothing_else(running: Running) -> None:
    assert (await running.http.get(f"{SERVICE}/sandbox")).status == 404
    assert (await running.http.post(f"{SERVICE}/sandbox", json=WISH)).status == 404
    asked = {"command": "echo hello", "sandbox_id": "s"}
    done = await running.http.post(f"{GATEWAY}/s/exec", json=asked)
    assert (await done.json())["stdout"] == "hello\n"
    other = await running.http.post(f"{GATEWAY}/another/exec", json=asked)
    assert (other.status, (await other.json())["error"]) == (502, "sandbox_not_found")


async def test_the_requests_of_an_owners_sandboxes_share_the_memory_that_they_may_hold(start: Start) -> None:
    async with start() as one, start() as another:
        (memory,) = run_module._memories.values()
        assert memory.take(memory.free)
        large = {"command": "x" * 100_000, "sandbox_id": "s"}
        asking = [asyncio.ensure_future(it.http.post(f"{GATEWAY}/s/exec", json=large)) for it in (one, another)]
        await asyncio.sleep(0.3)
        assert not any(it.done() for it in asking)
        memory.give_back(512 * 1024**2)
        assert [(await it).status for it in asking] == [200, 200]


async def test_files_count_towards_that_memory(start: Start) -> None:
    async with start() as running:
        await running.http.put("/files?path=/tmp/a", data=bytes(100_000))
        (memory,) = run_module._memories.values()
        assert memory.take(memory.free)
        asking = [
            asyncio.ensure_future(running.http.put("/files?path=/tmp/b", data=bytes(100_000))),
            asyncio.ensure_future(running.http.get("/files?path=/tmp/a")),
        ]
        await asyncio.sleep(0.3)
        assert not any(it.done() for it in asking)
        memory.give_back(512 * 1024**2)
        assert [(await it).status for it in asking] == [200, 200]
        assert memory.free == 512 * 1024**2


async def test_a_start_command_runs_beside_and_writes_the_log(start: Start) -> None:
    async with start(start_command=("/bin/sh", "-c", "echo begun; exec sleep 60")) as running:
        async with asyncio.timeout(10):
            while await (await running.http.get("/log")).read() != b"begun\n":
                await asyncio.sleep(0.05)
