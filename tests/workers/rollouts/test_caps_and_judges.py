"""What a rollout may use is bounded; judges have their own route, models and accounts; data goes through the hub."""

from __future__ import annotations

import asyncio
import json
from io import BytesIO

import aiohttp
import pytest
from aiohttp import web
from envhub.protocol.evals.rollouts import Usage
from yarl import URL

from tests.fakes.policy_endpoint import PolicyEndpoint
from tests.workers.rollouts.conftest import HELLO, Box, OpenBox, quick_endpoint
from workers.broker.memory import Memory
from workers.rollouts.interceptor import server
from workers.rollouts.interceptor.data import DataSource
from workers.rollouts.interceptor.protocols import PARSED_LIMIT, parsed_size
from workers.rollouts.interceptor.recorder import Budget, Caps, Meter
from workers.rollouts.interceptor.refusals import BudgetSpent
from workers.rollouts.interceptor.scripted import Scripted
from workers.rollouts.interceptor.server import Interceptor

CHAT = "/r/g.0/v1/chat/completions"


async def test_calls_beyond_the_cap_are_refused_as_a_limit(stub: PolicyEndpoint, open_box: OpenBox) -> None:
    async with quick_endpoint(stub.base_url) as endpoint, open_box(Interceptor(endpoint, caps=Caps(calls=2))) as box:
        box.interceptor.open("g.0", key="g.0")
        answers = [await box.post(CHAT, HELLO) for _ in range(3)]
    assert [status for status, _ in answers] == [200, 200, 403]
    assert answers[2][1]["error"]["type"] == "hub_limit"
    assert len(stub.requests) == 2


async def test_tokens_are_counted_against_their_cap(stub: PolicyEndpoint, open_box: OpenBox) -> None:
    async with quick_endpoint(stub.base_url) as endpoint, open_box(Interceptor(endpoint, caps=Caps(tokens=10))) as box:
        box.interceptor.open("g.0", key="g.0")
        assert [(await box.post(CHAT, HELLO))[0] for _ in range(2)] == [200, 403]


async def test_the_tokens_of_judges_are_counted_against_a_cap_of_the_run(
    stub: PolicyEndpoint, open_box: OpenBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "JUDGE_CAPS", Caps(tokens=10))
    async with (
        quick_endpoint(stub.base_url) as judge,
        open_box(Interceptor(Scripted(), judges={"*": judge})) as box,
    ):
        answers = [await box.post("/judge/v1/chat/completions", HELLO) for _ in range(2)]
    assert [status for status, _ in answers] == [200, 403]
    assert "this run's judging has used its 10 tokens" in answers[1][1]["error"]["message"]


async def test_calls_beyond_a_rollouts_cap_leave_the_runs_calls_to_other_rollouts(open_box: OpenBox) -> None:
    async with open_box(Interceptor(Scripted(), caps=Caps(calls=1), run_caps=Caps(calls=2))) as box:
        for key in ("g.0", "g.1"):
            box.interceptor.open(key, key=key)
        paths = (CHAT, CHAT, CHAT, "/r/g.1/v1/chat/completions")
        assert [(await box.post(path, HELLO))[0] for path in paths] == [200, 403, 403, 200]


def spent(caps: Caps, *calls: tuple[int, int]) -> Meter:
    """After calls of (prompt, completion) tokens."""
    meter = Meter("this rollout", caps)
    for prompt, completion in calls:
        meter.enter()
        meter.spend(Usage(prompt_tokens=prompt, completion_tokens=completion), 0)
    return meter


def test_a_conversation_is_fed_in_once_however_many_turns_repeat_it() -> None:
    meter = spent(Caps(), (10, 5), (18, 4), (22, 1))
    assert (meter.input_tokens, meter.output_tokens, meter.tokens) == (13, 10, 60)


@pytest.mark.parametrize(
    ("budget", "reached"),
    [
        (Budget(turns=2), "2 turns"),
        (Budget(input_tokens=13), "13 input tokens"),
        (Budget(output_tokens=9), "9 output tokens"),
        (Budget(total_tokens=22), "22 tokens"),  # 13 fed in and 9 sampled, though both calls together had 37
    ],
)
def test_the_next_call_meets_a_spent_budget(budget: Budget, reached: str) -> None:
    caps = Caps(budget=budget)
    meter = spent(caps, (10, 5), (18, 4))
    with pytest.raises(BudgetSpent, match=f"has used its {reached}"):
        meter.enter()
    assert meter.budget_spent
    assert spent(caps.times(2), (10, 5), (18, 4), (18, 4)).calls == 3


def test_an_answer_is_a_turn_also_where_the_endpoint_counts_no_tokens() -> None:
    with pytest.raises(BudgetSpent, match="has used its 2 turns"):
        spent(Caps(budget=Budget(turns=2)), (0, 0), (0, 0), (0, 0))


@pytest.mark.parametrize("path", ["chat/completions", "messages"])
async def test_a_spent_budget_looks_like_a_full_context(stub: PolicyEndpoint, open_box: OpenBox, path: str) -> None:
    caps = Caps(budget=Budget(turns=1))
    async with quick_endpoint(stub.base_url) as endpoint, open_box(Interceptor(endpoint, caps=caps)) as box:
        recorder = box.interceptor.open("g.0", key="g.0")
        await box.post(CHAT, HELLO)
        assert not recorder.budget_spent
        status, answer = await box.post(f"/r/g.0/v1/{path}", HELLO | {"max_tokens": 4})
    assert (status, answer["error"]["type"], recorder.budget_spent) == (400, "invalid_request_error", True)
    assert answer["error"]["message"].startswith("This model's maximum context length is")
    assert answer["error"].get("code", "context_length_exceeded") == "context_length_exceeded"
    assert [turn.status for turn in recorder.turns] == [200]


async def test_calls_without_an_answer_and_those_of_judges_take_room_too(open_box: OpenBox) -> None:
    long, judged = HELLO | {"model": "j", "user": "x" * 2500}, []
    async with (
        PolicyEndpoint(model="judge") as judge,
        quick_endpoint(judge.base_url) as upstream,
        quick_endpoint("http://127.0.0.1:9", retries=0) as nobody,
        open_box(Interceptor(nobody, judges={"j": upstream}, caps=Caps(bytes=2000))) as box,
    ):
        box.interceptor.open("g.0", key="g.0")
        box.interceptor.open("g.1", key="g.1")
        failing = [(await box.post(CHAT, long))[0] for _ in range(2)]
        for _ in range(2):
            headers = {"X-Envhub-Rollout": "g.1"}
            async with box.http.post("http://box/judge/v1/chat/completions", json=long, headers=headers) as response:
                judged.append(response.status)
    assert (failing, judged) == ([503, 403], [200, 403])


async def test_calls_at_once_wait_for_their_turn(stub: PolicyEndpoint, open_box: OpenBox) -> None:
    stub.latency_s = 0.02
    async with (
        quick_endpoint(stub.base_url) as endpoint,
        open_box(Interceptor(endpoint, caps=Caps(concurrency=2))) as box,
    ):
        box.interceptor.open("g.0", key="g.0")
        await asyncio.gather(*(box.post(CHAT, HELLO) for _ in range(8)))
    assert stub.most_in_flight == 2


async def test_a_body_that_is_too_large_is_refused(box: Box) -> None:
    box.interceptor.open("g.0", key="g.0")
    body = BytesIO(b'{"prompt": "' + b"x" * (33 * 1024**2) + b'"}')
    async with box.http.post(f"http://box{CHAT}", data=body) as response:
        assert response.status == 413


async def test_large_bodies_wait_until_others_of_the_box_are_answered(
    stub: PolicyEndpoint, open_box: OpenBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "Memory", lambda: Memory(200_000))
    stub.latency_s = 0.02
    large = {"messages": [{"role": "user", "content": "x" * 90_000}]}
    async with (
        quick_endpoint(stub.base_url) as endpoint,
        open_box(Interceptor(endpoint, judges={"*": endpoint})) as box,
    ):
        box.interceptor.open("g.0", key="g.0")
        calls = [box.post(path, large) for path in (CHAT, "/judge/v1/chat/completions") * 4]
        assert {status for status, _ in await asyncio.gather(*calls)} == {200}
    assert stub.most_in_flight == 2


async def test_a_body_whose_values_take_too_much_memory_is_refused(box: Box) -> None:
    box.interceptor.open("g.0", key="g.0")
    body = BytesIO(b'{"messages": [' + b"[]," * 1_200_000 + b"[]]}")
    async with box.http.post(f"http://box{CHAT}", data=body) as response:
        assert (response.status, "too many values" in await response.text()) == (413, True)


@pytest.mark.parametrize("content", [list(range(1_000_000)), '{"key": [1, 2]}, ' * 200_000])
def test_long_prompts_are_not(content: object) -> None:
    assert parsed_size(json.dumps({"prompt": content}).encode()) <= PARSED_LIMIT


async def test_bodies_of_many_values_wait_until_others_are_answered(
    stub: PolicyEndpoint, open_box: OpenBox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "Memory", lambda: Memory(200_000))
    stub.latency_s = 0.02
    async with quick_endpoint(stub.base_url) as endpoint, open_box(Interceptor(endpoint)) as box:
        box.interceptor.open("g.0", key="g.0")
        calls = [box.post(CHAT, HELLO | {"extra": [0] * 2000}) for _ in range(4)]
        assert {status for status, _ in await asyncio.gather(*calls)} == {200}
    assert stub.most_in_flight == 1


async def test_two_rollouts_are_recorded_apart_and_ids_are_never_shared(box: Box) -> None:
    one, two = box.interceptor.open("g.0", key="g.0"), box.interceptor.open("g.1", key="g.1")
    await box.post(CHAT, HELLO)
    await box.post("/r/g.1/v1/chat/completions", HELLO)
    await box.post("/r/g.1/v1/chat/completions", HELLO)
    assert (len(one.turns), len(two.turns)) == (1, 2)
    assert len({turn.response_id for turn in (*one.turns, *two.turns)}) == 3


async def test_a_judge_is_mapped_by_the_run_and_accounted_apart(stub: PolicyEndpoint, open_box: OpenBox) -> None:
    async with (
        PolicyEndpoint(model="judge") as judge,
        quick_endpoint(stub.base_url) as policy,
        quick_endpoint(judge.base_url) as upstream,
        open_box(Interceptor(policy, judges={"gpt-4.1-mini": upstream})) as box,
    ):
        recorder = box.interceptor.open("g.0", key="g.0")
        status, _ = await box.post("/judge/v1/chat/completions", HELLO | {"model": "gpt-4.1-mini"})
        headers = {"X-Envhub-Rollout": "g.0"}
        body = HELLO | {"model": "gpt-4.1-mini"}
        async with box.http.post("http://box/judge/v1/chat/completions", json=body, headers=headers):
            pass
        anonymous, own = box.interceptor.judge_usage, box.interceptor.close("g.0")
    assert status == 200
    assert (len(stub.requests), len(judge.requests)) == (0, 2)
    assert anonymous.completion_tokens == own.completion_tokens == 6
    assert [(turn.route, turn.trainable) for turn in recorder.turns] == [("judge", False)]


async def test_a_judges_turns_begin_when_they_did_in_their_rollout(stub: PolicyEndpoint, open_box: OpenBox) -> None:
    async with (
        quick_endpoint(stub.base_url) as upstream,
        open_box(Interceptor(Scripted(), judges={"j": upstream})) as box,
    ):
        recorder = box.interceptor.open("g.0", key="g.0")
        await box.post(CHAT, HELLO)
        for _ in range(2):
            headers, body = {"X-Envhub-Rollout": "g.0"}, HELLO | {"model": "j"}
            async with box.http.post("http://box/judge/v1/chat/completions", json=body, headers=headers):
                await asyncio.sleep(0.01)
    began = [turn.started_s for turn in recorder.turns]
    assert [turn.route for turn in recorder.turns] == ["policy", "judge", "judge"]
    assert began == sorted(began)
    assert began[2] - began[1] > 0.005


async def test_one_judge_can_stand_for_every_name_that_is_not_mapped(open_box: OpenBox) -> None:
    async with (
        PolicyEndpoint(model="named") as named,
        PolicyEndpoint(model="any") as other,
        quick_endpoint(named.base_url) as first,
        quick_endpoint(other.base_url) as second,
        open_box(Interceptor(Scripted(), judges={"gpt-4.1": first, "*": second})) as box,
    ):
        for model in ("gpt-4.1", "gpt-5", "o9"):
            await box.post("/judge/v1/chat/completions", HELLO | {"model": model})
    assert (len(named.requests), len(other.requests)) == (1, 2)


async def test_an_unknown_judge_names_the_flag_that_grants_it(box: Box) -> None:
    status, body = await box.post("/judge/v1/chat/completions", HELLO | {"model": "gpt-4.1-mini"})
    assert (status, body["error"]["type"]) == (404, "hub_judge")
    assert "--judge gpt-4.1-mini=OWNER/MODEL" in body["error"]["message"]


async def test_the_script_calls_a_tool_once_and_then_speaks(open_box: OpenBox) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "s": {"type": "string"}}, "required": ["n"]}
    tools = [{"type": "function", "function": {"name": "add", "parameters": schema}}]
    async with open_box(Interceptor(Scripted())) as box:
        box.interceptor.open("g.0", key="g.0")
        _, first = await box.post(CHAT, HELLO | {"tools": tools})
        message = first["choices"][0]["message"]
        messages = [*HELLO["messages"], message, {"role": "tool", "tool_call_id": "x", "content": "1"}]
        _, second = await box.post(CHAT, {"messages": messages, "tools": tools})
    assert message["tool_calls"][0]["function"] == {"name": "add", "arguments": '{"n": 1}'}
    assert second["choices"][0]["message"]["content"]


async def test_data_is_fetched_from_the_hub_with_the_runs_token(stub: PolicyEndpoint, open_box: OpenBox) -> None:
    seen: list[tuple[str, str]] = []

    async def serve(request: web.Request) -> web.Response:
        seen.append((request.path_qs, request.headers["Authorization"]))
        return web.Response(body=b"0123456789"[request.http_range], headers={"ETag": '"x"'})

    app = web.Application()
    app.router.add_get("/hf/{tail:.*}", serve)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/hf"
    async with aiohttp.ClientSession() as http, quick_endpoint(stub.base_url) as policy:
        data = DataSource(url, {"Authorization": "Bearer hubr_x"}, http)
        async with open_box(Interceptor(policy, data=data)) as box:
            path = "http://box/hf/datasets/a/b/resolve/main/x.json?download=1"
            async with box.http.get(path, headers={"Range": "bytes=2-4", "Authorization": "Bearer mine"}) as response:
                got = (response.status, await response.read(), response.headers["ETag"])
    await runner.cleanup()
    assert got == (200, b"234", '"x"')
    assert seen == [("/hf/datasets/a/b/resolve/main/x.json?download=1", "Bearer hubr_x")]


async def test_repositories_that_the_hub_lacks_are_noted(stub: PolicyEndpoint, open_box: OpenBox) -> None:
    async def refuse(request: web.Request) -> web.Response:
        code = "RepoNotFound" if "/none/" in request.path else "EntryNotFound"
        return web.Response(status=404, headers={"X-Error-Code": code})

    app = web.Application()
    app.router.add_get("/hf/{tail:.*}", refuse)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/hf"
    async with aiohttp.ClientSession() as http, quick_endpoint(stub.base_url) as policy:
        interceptor = Interceptor(policy, data=DataSource(url, {}, http))
        async with open_box(interceptor) as box:
            for repository in ("a/none", "a/kept"):
                async with box.http.get(f"http://box/hf/datasets/{repository}/resolve/main/x.json"):
                    pass
    await runner.cleanup()
    assert list(interceptor.files_lacking) == [("GET", "https://huggingface.co/datasets/a/none/resolve/main/x.json")]


async def test_the_data_route_leads_nowhere_else_on_the_hub(stub: PolicyEndpoint, open_box: OpenBox) -> None:
    seen: list[str] = []

    async def serve(request: web.Request) -> web.Response:
        seen.append(request.raw_path)
        return web.Response()

    app = web.Application()
    app.router.add_route("*", "/{tail:.*}", serve)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/hf"
    plain = "datasets/a/b/resolve/main/x%20y.json"
    async with aiohttp.ClientSession() as http, quick_endpoint(stub.base_url) as policy:
        data = DataSource(url, {"Authorization": "Bearer hubr_x"}, http)
        async with open_box(Interceptor(policy, data=data)) as box:
            for path in ("../api", "%2e%2e/api", "a/.%2E/%2e./api", "..%2Fapi", "%252e%252e/api", "a/..%5c..%5capi"):
                for method, tail in (("GET", path), ("POST", f"paths-info/{path}")):
                    target = URL(f"http://box/hf/{tail}", encoded=True)
                    async with box.http.request(method, target, json={}) as response:
                        assert response.status == 400
            async with box.http.get(URL(f"http://box/hf/{plain}", encoded=True)) as response:
                assert response.status == 200
    await runner.cleanup()
    assert seen == [f"/hf/{plain}"]


async def test_without_a_data_cache_the_answer_says_what_to_do(box: Box) -> None:
    async with box.http.get("http://box/hf/api/datasets/a/b") as response:
        assert response.status == 404
        assert "hub data add" in (await response.json())["error"]
