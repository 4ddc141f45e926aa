"""The interceptor's HTTP server on a unix socket: a secret URL for each rollout, one for judges, one for data sets.

interceptor = Interceptor(policy=Endpoint(...), judges={"gpt-4.1-mini": Endpoint(...)}, caps=Caps())
async with interceptor.serve(sockets / "gateway.sock"):
  recorder = interceptor.open("g1.0"); ...; interceptor.close(recorder.key)
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from aiohttp import web
from envhub.client.telemetry.tracing import Span
from envhub.protocol.base import JsonObject
from envhub.protocol.evals.replays import StoredCall
from envhub.protocol.evals.rollouts import TurnAgent, Usage

from workers.broker.interface import ROLLOUT_HEADER
from workers.broker.memory import MEMORY, Memory, body_size
from workers.rollouts.agent_parts import agent_of
from workers.rollouts.interceptor.answers import Answer, Upstream, UpstreamFailed, without_added
from workers.rollouts.interceptor.call_spans import call_span, tell_call
from workers.rollouts.interceptor.data import ERROR_CODE, NO_REPOSITORY, DataSource, no_data
from workers.rollouts.interceptor.protocols import (
    BODY_LIMIT,
    PROTOCOLS,
    ask,
    asked_for_tokens,
    parsed,
    parsed_size,
    protocol_of,
    read_body,
    send,
)
from workers.rollouts.interceptor.recorder import Caps, Meter, Recorder, total_usage
from workers.rollouts.interceptor.refusals import INFRASTRUCTURE, JUDGE, Refusal, respond
from workers.rollouts.interceptor.replaying import Replaying

logger = logging.getLogger(__name__)
ANY_JUDGE = "*"  # the name under which a run maps all judges that it does not name
JUDGES_TOLD = 20
FILES_TOLD = 20
JUDGE_CAPS = Caps(calls=1_000_000, tokens=10**12, concurrency=64, bytes=2**62)
# Apart from MEMORY, so that requests that wait here while they hold that never wait for each other.
PARSED: web.AppKey[Memory] = web.AppKey("parsed", Memory)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
# (recorder's name, number of the call, request) -> the request to send
Shape = Callable[[str, int, JsonObject], JsonObject]


class Interceptor:
    """Routes calls to recorders and upstreams by key, and checks and limits everything that the box sends."""

    def __init__(
        self,
        policy: Upstream,
        *,
        judges: Mapping[str, Upstream] | None = None,
        caps: Caps = Caps(),  # noqa: B008  frozen
        run_caps: Caps = Caps(calls=10_000_000, tokens=10**12, concurrency=1024, bytes=2**62),  # noqa: B008
        data: DataSource | None = None,
        shape: Shape = lambda name, call, body: body,
        replay: tuple[StoredCall, ...] = (),
    ) -> None:
        self._policy = policy
        self._judges = dict(judges or {})
        self._caps = caps
        self._run = Meter("this run", run_caps)
        self._data = data
        self._shape = shape
        self._replay = replay
        self._recorders: dict[str, Recorder] = {}
        self._judge_usage: dict[str, Usage] = {}
        self.judges_lacking: dict[str, None] = {}  # models asked for as judges that the run does not have
        # (method, URL) of requests to the outside that had no answer
        self.files_lacking: dict[tuple[str, str], None] = {}
        self._judging = Meter("this run's judging", JUDGE_CAPS)

    @property
    def data(self) -> DataSource | None:
        """The hub's data, if the run has it."""
        return self._data

    def open(self, name: str, *, rollouts: int = 1, key: str = "", upstream: Upstream | None = None) -> Recorder:
        """Start serving /r/<key>/ for a new recorder, with a random key unless one is given.

        `rollouts` share it if the library drives a group through one client. `upstream` answers instead of the
        policy.
        """
        replaying = Replaying(self._replay if upstream is None else (), rollouts)
        recorder = Recorder(name, self._caps.times(rollouts), key=key, replaying=replaying, upstream=upstream)
        self._recorders[recorder.key] = recorder
        return recorder

    def close(self, key: str) -> Usage:
        """Stop serving /r/<key>/; return the usage of judges that the runner attributed to it."""
        self._recorders.pop(key, None)
        return self._judge_usage.pop(key, Usage())

    @property
    def judge_usage(self) -> Usage:
        """Usage of judges so far that is attributed to no rollout."""
        return self._judge_usage.get("", Usage())

    @asynccontextmanager
    async def serve(self, socket: Path, beside: Mapping[str, web.Application] | None = None) -> AsyncIterator[None]:
        """Listen on `socket` until the context ends, then drop calls in flight. `beside`: applications by prefix."""
        app = self._app(beside or {})
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.5)
        await runner.setup()
        await web.UnixSite(runner, str(socket), backlog=1024).start()
        socket.chmod(0o666)  # the box may have another uid; only this box sees the directory
        try:
            yield
        finally:
            await runner.cleanup()
            socket.unlink(missing_ok=True)

    def _app(self, beside: Mapping[str, web.Application]) -> web.Application:
        app = web.Application(client_max_size=BODY_LIMIT)
        app[MEMORY], app[PARSED] = Memory(), Memory()
        for prefix, handle in (("/r/{rollout}", self._policy_call), ("/judge", self._judge_call)):
            for path in PROTOCOLS:
                app.router.add_post(prefix + path, handle)
        app.router.add_get("/r/{rollout}/v1/models", self._models)
        app.router.add_get("/hf/{tail:.*}", self._data_call)  # also serves HEAD
        app.router.add_post("/hf/{tail:.*}", self._data_call)
        for prefix, application in beside.items():
            app.add_subapp(prefix, application)
        app.router.add_route("*", "/{tail:.*}", unknown_path)
        return app

    async def _policy_call(self, request: web.Request) -> web.StreamResponse:
        protocol = protocol_of(request)
        try:
            recorder = self._recorders.get(request.match_info["rollout"])
            if recorder is None:
                raise Refusal(404, "not_found_error", "no rollout is running under this address")
            async with counted_body(request) as (body, size):
                return await self._answer(request, protocol, body, size, recorder.upstream or self._policy, recorder)
        except Refusal as refusal:
            return respond(refusal, protocol)

    async def _judge_call(self, request: web.Request) -> web.StreamResponse:
        protocol = protocol_of(request)
        key = request.headers.get(ROLLOUT_HEADER, "")
        try:
            recorder = Recorder(key, JUDGE_CAPS, route="judge")
            if (owner := self._recorders.get(key)) is not None:
                owner.check_room()
                recorder.span = owner.span
            async with counted_body(request) as (body, size):
                try:
                    self._judging.enter()
                    async with self._judging.gate:
                        return await self._answer(request, protocol, body, size, self._judge_for(body), recorder)
                finally:
                    self._account_judge(key, recorder)
        except Refusal as refusal:
            return respond(refusal, protocol)

    def _judge_for(self, body: JsonObject) -> Upstream:
        asked = str(body.get("model"))
        upstream = self._judges.get(asked) or self._judges.get(ANY_JUDGE)
        if upstream is None:
            if len(self.judges_lacking) < JUDGES_TOLD:
                self.judges_lacking[asked[:200]] = None
            known = f" (the run has judges for: {', '.join(sorted(self._judges))})" if self._judges else ""
            text = f"the environment asks the judge model {asked!r}, which this run does not grant{known}"
            raise Refusal(
                404, JUDGE, f"{text}; start the run with --judge {asked}=OWNER/MODEL, or '*=OWNER/MODEL' for all"
            )
        return upstream

    def _account_judge(self, key: str, recorder: Recorder) -> None:
        owner = self._recorders.get(key)
        if owner is not None:
            owner.add_judge_turns(recorder)
        key = key if owner is not None else ""
        used, more = self._judge_usage.get(key, Usage()), total_usage(recorder.turns)
        self._judging.spend(more, 0)
        self._judge_usage[key] = Usage(
            prompt_tokens=used.prompt_tokens + more.prompt_tokens,
            completion_tokens=used.completion_tokens + more.completion_tokens,
        )

    async def _answer(
        self, request: web.Request, protocol: str, body: JsonObject, size: int, upstream: Upstream, recorder: Recorder
    ) -> web.StreamResponse:
        """Ask the upstream, record the turn and answer. Raises Refusal."""
        is_judge, asked = recorder.route == "judge", body
        number = recorder.calls
        async with recorder.call() as began, self._run.gate:
            if not is_judge:
                self._run.enter()  # not for a call beyond the rollout's caps, which it may repeat endlessly
            if not is_judge and protocol != "tokenize":
                body = self._shape(recorder.name, number, body)
            with call_span(recorder, protocol, upstream.model, body) as traced:
                agent = agent_of(request)
                answer, shown = await self._recorded(protocol, body, size, upstream, recorder, began, traced, agent)
            if not is_judge:
                self._run.spend(answer.usage, 0, answered=answer.ok)
        if not asked_for_tokens(asked, protocol):
            shown = without_added(shown)
        if not answer.ok:
            return web.json_response(shown, status=answer.status)
        return await send(request, protocol, asked, shown)

    async def _recorded(
        self,
        protocol: str,
        body: JsonObject,
        size: int,
        upstream: Upstream,
        recorder: Recorder,
        began: float,
        traced: Span,
        agent: TurnAgent | None,
    ) -> tuple[Answer, JsonObject]:
        """Ask the upstream and add the turn; return the answer and the body shown to the box. Raises Refusal."""
        name = upstream.model
        stored = recorder.replaying.answer(protocol, body)
        try:
            answer = stored.answer if stored else await ask(upstream, protocol, body)
        except UpstreamFailed as error:
            turn = recorder.record_failure(
                protocol, name, body, str(error), status=503, retries=error.retries, began=began, size=size
            )
            tell_call(traced, turn)
            kind = JUDGE if recorder.route == "judge" else INFRASTRUCTURE
            raise Refusal(503, kind, str(error)) from error
        if protocol == "tokenize":
            return answer, answer.body
        shown = answer.body
        if answer.ok:
            shown = {**shown, "id": recorder.claim_id(shown.get("id")), "model": name}
        size += estimated_size(answer)
        how = stored.how if stored else None
        turn = recorder.record(
            protocol, name, body, answer, shown=shown, began=began, size=size, replayed=how, agent=agent
        )
        tell_call(traced, turn)
        return answer, shown

    async def _models(self, request: web.Request) -> web.StreamResponse:
        entry = {"id": self._policy.model, "object": "model", "created": 0, "owned_by": "hub"}
        return web.json_response({"object": "list", "data": [entry]})

    async def _data_call(self, request: web.Request) -> web.StreamResponse:
        if self._data is None:
            return no_data()
        size = body_size(request, BODY_LIMIT) if request.method == "POST" else 0
        async with request.app[MEMORY].hold(size):
            answer = await self._data.forward(request)
        if answer.headers.get(ERROR_CODE) == NO_REPOSITORY and len(self.files_lacking) < FILES_TOLD:
            self.files_lacking["GET", f"https://huggingface.co/{request.raw_path.split('/hf/', 1)[1]}"] = None
        return answer


@asynccontextmanager
async def counted_body(request: web.Request) -> AsyncIterator[tuple[JsonObject, int]]:
    """Read a call's body once the box may hold that much, and count it until the call is answered. Raises Refusal."""
    async with request.app[MEMORY].hold(body_size(request, BODY_LIMIT)) as room:
        raw = await read_body(request)
        room.shrink(len(raw))
        async with request.app[PARSED].hold(parsed_size(raw)):
            yield parsed(raw), len(raw)


def estimated_size(answer: Answer) -> int:
    """Estimate the bytes of the answer's record."""
    tokens = answer.tokens
    ids = 0 if tokens is None else len(tokens.prompt_ids) + 2 * len(tokens.completion_ids)
    return 8 * ids + 8 * answer.usage.completion_tokens + 500


async def unknown_path(request: web.Request) -> web.StreamResponse:
    """Answer any other path in JSON, so that clients show the reason."""
    await asyncio.sleep(0)
    return respond(Refusal(404, "not_found_error", f"no such route: {request.method} {request.path}"), "chat")
