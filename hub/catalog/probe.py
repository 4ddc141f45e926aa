"""Calling an endpoint once with the smallest possible question, when a model is saved or on request."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import httpx
from envhub.client.outside import outbound
from envhub.client.outside.addresses import OutboundRefused
from envhub.client.outside.endpoints import endpoint_headers, endpoint_url, scrub
from envhub.protocol.models.catalog import EndpointKind, OutboundPolicy, TargetVariant, VariantTest

TIMEOUT_S = 20.0
MAX_ANSWER = 1024 * 1024
_SHOWN = 300


def probe_all(variants: Sequence[TargetVariant], policy: OutboundPolicy) -> tuple[VariantTest, ...]:
    """Call every variant once, at most eight at a time; never raises for what an endpoint does."""
    with ThreadPoolExecutor(max_workers=min(8, len(variants) or 1)) as pool:
        return tuple(pool.map(lambda variant: _probe(variant, policy), variants))


def _probe(variant: TargetVariant, policy: OutboundPolicy) -> VariantTest:
    started = time.monotonic()
    timeout = min(TIMEOUT_S, variant.timeout_s)
    try:
        with outbound.client(policy, timeout=timeout) as http:
            message = _ask(http, variant, deadline=started + timeout)
    except OutboundRefused as error:
        message = f"{error.message}; {error.hint}" if error.hint else error.message
    except httpx.TimeoutException:
        message = f"no answer within {timeout:g} s"
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:  # ValueError: a header that cannot be sent
        message = f"{type(error).__name__}: {error}"[:_SHOWN]
    seconds = time.monotonic() - started
    return VariantTest(base_url=variant.base_url, ok=not message, seconds=round(seconds, 3), message=message)


def _ask(http: httpx.Client, variant: TargetVariant, *, deadline: float) -> str:
    """What is wrong with the variant's answer; "" when nothing is."""
    route = "messages" if variant.kind is EndpointKind.ANTHROPIC else "chat/completions"
    question = {"model": variant.model, "messages": [{"role": "user", "content": "Say ok."}]}
    message = _post(http, variant, route, question | {"max_tokens": 1}, deadline)
    if message.startswith("400") and "max_completion_tokens" in message:  # OpenAI's reasoning models
        message = _post(http, variant, route, question | {"max_completion_tokens": 16}, deadline)
    return message


def _post(http: httpx.Client, variant: TargetVariant, route: str, body: dict[str, object], deadline: float) -> str:
    headers = endpoint_headers(variant) | {"accept-encoding": "identity"}
    with http.stream("POST", endpoint_url(variant, route), json=body, headers=headers) as response:
        answer = bytearray()
        for piece in response.iter_raw():
            answer += piece
            if len(answer) > MAX_ANSWER:
                return f"the answer is longer than {MAX_ANSWER} bytes"
            if time.monotonic() > deadline:
                return "the answer did not end in time"
    if response.is_redirect:
        return f"{response.status_code}: redirects are not followed; give the final URL"
    if not response.is_success:
        text = bytes(answer).decode("utf-8", "replace").replace("\x00", "").strip()
        return f"{response.status_code}: {scrub(text, variant)}"[:_SHOWN]
    expected = b'"content"' if variant.kind is EndpointKind.ANTHROPIC else b'"choices"'
    return "" if expected in answer else "the answer is not a chat completion; is this the right base URL?"
