"""A stub model server with OpenAI's, Anthropic's and vLLM's routes: scripted answers, latency, token ids, faults.

    async with PolicyEndpoint(answer=lambda body: "4") as endpoint: ... endpoint.base_url ...
or, as a process: `python -m tests.fakes.policy_endpoint --port 9000 --latency 0.05 --text hello`.
Tokens are bytes plus two marks, under a ChatML template, so that a next turn's prompt extends the last one exactly.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import count
from typing import Any, Self

from aiohttp import web

START, END = 256, 257
Body = dict[str, Any]


class Fault(StrEnum):
    """What a request may meet instead of an answer."""

    RATE_LIMIT = "rate_limit"
    SERVER_ERROR = "server_error"
    HANG = "hang"
    GARBAGE = "garbage"
    DISCONNECT = "disconnect"
    DISCONNECT_MID_STREAM = "disconnect_mid_stream"
    CONTEXT_LENGTH = "context_length"
    NO_KEY = "no_key"
    STRANGE_CALL = "strange_call"


@dataclass(frozen=True)
class Answer:
    """One assistant message. `tool_calls` are (name, arguments as JSON text)."""

    text: str = "hello"
    tool_calls: tuple[tuple[str, str], ...] = ()
    finish_reason: str | None = None

    @property
    def reason(self) -> str:
        """The finish reason in OpenAI's words."""
        return self.finish_reason or ("tool_calls" if self.tool_calls else "stop")


@dataclass(frozen=True)
class Seen:
    """One request as it arrived."""

    path: str
    body: Body
    headers: dict[str, str]


def encode(text: str) -> list[int]:
    """Byte tokens."""
    return list(text.encode())


def decode(ids: Sequence[int]) -> str:
    """The text of byte tokens, marks dropped."""
    return bytes(token for token in ids if token < START).decode(errors="replace")


def message_text(content: Any) -> str:
    """The text of a message's content, plain or in parts."""
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


def tool_text(calls: Sequence[tuple[str, str]]) -> str:
    """Tool calls in Hermes form, as a model samples them."""
    return "".join(f'<tool_call>\n{{"name": "{name}", "arguments": {args}}}\n</tool_call>' for name, args in calls)


def template(messages: Sequence[Body], *, generate: bool = True) -> list[int]:
    """ChatML ids of a conversation, ending in the assistant's header when `generate`."""
    ids: list[int] = []
    for message in messages:
        calls = [(c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls") or ()]
        text = message_text(message.get("content")) + tool_text(calls)
        ids += [START, *encode(f"{message['role']}\n{text}"), END, *encode("\n")]
    return [*ids, START, *encode("assistant\n")] if generate else ids


@dataclass
class PolicyEndpoint:
    """The server; settings may be changed while it runs.

    `faults` are used up one a request, where None is an answer; then `always` holds for every request.
    """

    answer: Callable[[Body], Answer | str] = lambda body: Answer()
    latency_s: float = 0.0
    faults: deque[Fault | None] = field(default_factory=deque)
    always: Fault | None = None
    retry_after: str | None = "0"
    refuses_token_ids: bool = False  # like OpenAI: 400 on unknown parameters
    refusal: str = "Unrecognized request argument: return_token_ids"
    ignores_token_ids: bool = False  # like many proxies: unknown parameters are dropped
    max_model_len: int = 100_000
    model: str = "stub"
    host: str = "127.0.0.1"
    port: int = 0
    requests: list[Seen] = field(default_factory=list)
    keep_requests: int = 10_000
    first_at: float | None = None  # time.time() of the first request
    in_flight: int = 0
    most_in_flight: int = 0
    _runner: web.AppRunner | None = None
    _ids: count[int] = field(default_factory=lambda: count(1))

    @property
    def base_url(self) -> str:
        """For OpenAI clients."""
        return f"http://{self.host}:{self.port}/v1"

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=64 * 1024**2)
        for path, handler in {
            "/v1/chat/completions": self.chat,
            "/v1/completions": self.completions,
            "/v1/messages": self.messages,
            "/tokenize": self.tokenize,
        }.items():
            app.router.add_post(path, handler)
        app.router.add_get("/v1/models", self.models)
        app.router.add_post("/first", self.first)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self.host, self.port, backlog=2048)
        await site.start()
        self.port = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """POST /v1/chat/completions."""
        body, fault = await self._receive(request)
        if fault is not None:
            return fault
        prompt = template(body["messages"])
        answers = [self._answer(body) for _ in range(body.get("n") or 1)]
        if len(prompt) > self.max_model_len:
            return context_length(self.max_model_len, len(prompt))
        if body.get("stream"):
            return await self._stream(request, body, prompt, answers[0])
        reply = self._head("chatcmpl", "chat.completion")
        reply["choices"] = [self._choice(body, index, answer) for index, answer in enumerate(answers)]
        if self._gives_ids(body):
            reply["prompt_token_ids"] = prompt
        reply["usage"] = usage(len(prompt), sum(len(sampled(answer)) for answer in answers))
        return web.json_response(reply)

    async def completions(self, request: web.Request) -> web.StreamResponse:
        """POST /v1/completions with a string or token ids as prompt."""
        body, fault = await self._receive(request)
        if fault is not None:
            return fault
        prompt = body["prompt"]
        ids = encode(prompt) if isinstance(prompt, str) else prompt
        if len(ids) > self.max_model_len:
            return context_length(self.max_model_len, len(ids))
        answer = self._answer(body | {"messages": [{"role": "user", "content": decode(ids)}]})
        text = answer.text + tool_text(answer.tool_calls)
        if body.get("stream"):
            return await self._stream_text(request, text)
        choice: Body = {"index": 0, "text": text, "finish_reason": answer.finish_reason or "stop", "logprobs": None}
        tokens = sampled(answer)
        if body.get("logprobs") is not None:
            choice["logprobs"] = {
                "tokens": [token_name(body, token) for token in tokens],
                "token_logprobs": [logprob(index) for index in range(len(tokens))],
                "top_logprobs": [None] * len(tokens),
                "text_offset": list(range(len(tokens))),
            }
        if self._gives_ids(body):
            choice |= {"token_ids": tokens, "prompt_token_ids": ids}
        reply = self._head("cmpl", "text_completion") | {"choices": [choice], "usage": usage(len(ids), len(tokens))}
        return web.json_response(reply)

    async def messages(self, request: web.Request) -> web.StreamResponse:
        """POST /v1/messages as Anthropic serves it."""
        body, fault = await self._receive(request)
        if fault is not None:
            return fault
        answer = self._answer(body)
        blocks: list[Body] = [{"type": "text", "text": answer.text}] if answer.text else []
        for name, arguments in answer.tool_calls:
            blocks.append(
                {"type": "tool_use", "id": f"toolu_{next(self._ids)}", "name": name, "input": json.loads(arguments)}
            )
        reason = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}[answer.reason]
        reply: Body = {"id": f"msg_{next(self._ids)}", "type": "message", "role": "assistant", "model": self.model}
        reply |= {"content": blocks, "stop_reason": reason, "stop_sequence": None}
        reply["usage"] = {"input_tokens": len(template(body["messages"])), "output_tokens": len(sampled(answer))}
        return web.json_response(reply)

    async def tokenize(self, request: web.Request) -> web.StreamResponse:
        """POST /tokenize as vLLM serves it, at the root."""
        body, fault = await self._receive(request)
        if fault is not None:
            return fault
        if "messages" in body:
            ids = template(body["messages"], generate=body.get("add_generation_prompt", True))
        else:
            ids = encode(body["prompt"])
        return web.json_response(
            {"count": len(ids), "max_model_len": self.max_model_len, "tokens": ids, "token_strs": None}
        )

    async def models(self, request: web.Request) -> web.StreamResponse:
        """GET /v1/models."""
        entry = {"id": self.model, "object": "model", "created": 0, "owned_by": "stub"}
        return web.json_response({"object": "list", "data": [entry | {"max_model_len": self.max_model_len}]})

    async def first(self, request: web.Request) -> web.StreamResponse:
        """POST /first: when the first request came; then forget it. For benchmarks."""
        at, self.first_at = self.first_at, None
        return web.json_response({"first_at": at})

    async def _receive(self, request: web.Request) -> tuple[Body, web.StreamResponse | None]:
        body: Body = await request.json()
        self.first_at = self.first_at or time.time()
        if len(self.requests) < self.keep_requests:
            self.requests.append(Seen(request.path, body, dict(request.headers)))
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(self.latency_s)
            fault = self.faults.popleft() if self.faults else self.always
            if fault is Fault.DISCONNECT_MID_STREAM:
                return body, await self._half_a_stream(request)
            if fault is not None:
                return body, await self._fail(request, fault)
        finally:
            self.in_flight -= 1
        if self.refuses_token_ids and "return_token_ids" in body:
            return body, error(400, "invalid_request_error", self.refusal)
        return body, None

    async def _fail(self, request: web.Request, fault: Fault) -> web.StreamResponse:
        match fault:
            case Fault.RATE_LIMIT:
                headers = {"Retry-After": self.retry_after} if self.retry_after is not None else {}
                return error(429, "rate_limit_error", "Rate limit reached", headers)
            case Fault.HANG:
                await asyncio.sleep(3600)
            case Fault.GARBAGE:
                return web.Response(text='{"choices": [{"mess', content_type="application/json")
            case Fault.DISCONNECT:
                if request.transport is not None:
                    request.transport.abort()
            case Fault.CONTEXT_LENGTH:
                return context_length(10, 11)
            case Fault.STRANGE_CALL:
                message = {"role": "assistant", "content": None, "tool_calls": [{"id": "call_1"}]}
                return web.json_response({"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]})
            case Fault.NO_KEY:
                return error(401, "authentication_error", "Incorrect API key provided")
        return error(500, "server_error", "The server had an error")

    async def _half_a_stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        chunk = self._head("chatcmpl", "chat.completion.chunk")
        chunk["choices"] = [{"index": 0, "delta": {"role": "assistant", "content": "hal"}, "finish_reason": None}]
        await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
        if request.transport is not None:
            request.transport.abort()
        return response

    async def _stream(self, request: web.Request, body: Body, prompt: list[int], answer: Answer) -> web.StreamResponse:
        head = self._head("chatcmpl", "chat.completion.chunk")
        ids = self._gives_ids(body)
        choices: list[Body] = [{"delta": {"role": "assistant", "content": ""}}]
        tokens = sampled(answer)
        for index, letter in enumerate(answer.text):
            choices.append({"delta": {"content": letter}, **self._token_fields(body, tokens[index : index + 1], index)})
        for index, (name, arguments) in enumerate(answer.tool_calls):
            call = {"index": index, "id": f"call_{next(self._ids)}", "type": "function"}
            choices.append({"delta": {"tool_calls": [call | {"function": {"name": name, "arguments": ""}}]}})
            for half in (arguments[: len(arguments) // 2], arguments[len(arguments) // 2 :]):
                choices.append({"delta": {"tool_calls": [{"index": index, "function": {"arguments": half}}]}})
        rest = tokens[len(answer.text) :]
        choices.append(
            {"delta": {}, "finish_reason": answer.reason, **self._token_fields(body, rest, len(answer.text))}
        )
        chunks = [head | {"choices": [{"index": 0, "finish_reason": None} | choice]} for choice in choices]
        if ids:
            chunks[0]["prompt_token_ids"] = prompt
        if (body.get("stream_options") or {}).get("include_usage"):
            chunks.append(head | {"choices": [], "usage": usage(len(prompt), len(tokens))})
        return await send_events(request, chunks)

    async def _stream_text(self, request: web.Request, text: str) -> web.StreamResponse:
        head = self._head("cmpl", "text_completion")
        choices = [{"index": 0, "text": letter, "finish_reason": None, "logprobs": None} for letter in text]
        choices.append({"index": 0, "text": "", "finish_reason": "stop", "logprobs": None})
        return await send_events(request, [head | {"choices": [choice]} for choice in choices])

    def _choice(self, body: Body, index: int, answer: Answer) -> Body:
        message: Body = {"role": "assistant", "content": answer.text or None}
        if answer.tool_calls:
            message["tool_calls"] = [
                {"id": f"call_{next(self._ids)}", "type": "function", "function": {"name": name, "arguments": args}}
                for name, args in answer.tool_calls
            ]
        choice: Body = {"index": index, "message": message, "logprobs": None, "finish_reason": answer.reason}
        return choice | self._token_fields(body, sampled(answer), 0)

    def _token_fields(self, body: Body, tokens: list[int], offset: int) -> Body:
        fields: Body = {}
        if body.get("logprobs"):
            fields["logprobs"] = {
                "content": [
                    {
                        "token": token_name(body, token),
                        "logprob": logprob(offset + index),
                        "bytes": [token] if token < START else None,
                        "top_logprobs": [],
                    }
                    for index, token in enumerate(tokens)
                ]
            }
        if self._gives_ids(body):
            fields["token_ids"] = tokens
        return fields

    def _gives_ids(self, body: Body) -> bool:
        return bool(body.get("return_token_ids")) and not self.ignores_token_ids

    def _answer(self, body: Body) -> Answer:
        given = self.answer(body)
        return Answer(given) if isinstance(given, str) else given

    def _head(self, prefix: str, kind: str) -> Body:
        return {
            "id": f"{prefix}-{next(self._ids)}",
            "object": kind,
            "created": int(time.time()),
            "model": self.model,
        }


def sampled(answer: Answer) -> list[int]:
    """The token ids that the model would have sampled for an answer."""
    ids = encode(answer.text + tool_text(answer.tool_calls))
    return ids if answer.reason == "length" else [*ids, END]


def logprob(index: int) -> float:
    """The logprob of the index-th sampled token: known, so that tests can check alignment."""
    return -0.125 * (index + 1)


def token_name(body: Body, token: int) -> str:
    """How vLLM names a token in logprobs."""
    if body.get("return_tokens_as_token_ids"):
        return f"token_id:{token}"
    return chr(token) if token < START else "<|im_end|>"


def usage(prompt: int, completion: int) -> Body:
    """OpenAI's usage object."""
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def error(status: int, kind: str, message: str, headers: dict[str, str] | None = None) -> web.Response:
    """OpenAI's error body."""
    detail = {"message": message, "type": kind, "param": None, "code": status}
    return web.json_response({"error": detail}, status=status, headers=headers)


def context_length(limit: int, got: int) -> web.Response:
    """vLLM's answer to a prompt that is too long."""
    message = f"This model's maximum context length is {limit} tokens. However, you requested {got} tokens."
    return error(400, "BadRequestError", message)


async def send_events(request: web.Request, chunks: Sequence[Body]) -> web.StreamResponse:
    """Chunks as server-sent events, ended as OpenAI ends them."""
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await response.prepare(request)
    for chunk in chunks:
        await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
    await response.write(b"data: [DONE]\n\n")
    return response


async def serve_forever(endpoint: PolicyEndpoint) -> None:
    """Serve until cancelled, for use as a process."""
    async with endpoint:
        print(endpoint.base_url, flush=True)
        await asyncio.Event().wait()


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", type=float, default=0.0)
    parser.add_argument("--text", default="hello")
    parser.add_argument("--always", type=Fault, choices=list(Fault))
    options = parser.parse_args()
    endpoint = PolicyEndpoint(
        answer=lambda body: options.text, latency_s=options.latency, port=options.port, always=options.always
    )
    endpoint.keep_requests = 0
    asyncio.run(serve_forever(endpoint))


if __name__ == "__main__":
    main()
