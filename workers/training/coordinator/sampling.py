"""[sampling] of the configuration as the environment's own sampling arguments."""

from __future__ import annotations

from envhub.protocol.base import JsonObject
from envhub.protocol.training.environment import Sampling


def sampling_arguments(sampling: Sampling, temperature: float | None = None) -> JsonObject:
    """What the runner hands to the library."""
    arguments: JsonObject = {}
    if sampling.max_tokens is not None:
        arguments["max_tokens"] = sampling.max_tokens
    wanted = sampling.temperature if temperature is None else temperature
    if wanted is not None:
        arguments["temperature"] = wanted
    if sampling.reasoning_effort is not None:
        arguments["reasoning_effort"] = sampling.reasoning_effort
    extra = dict(sampling.extra_body)
    if sampling.enable_thinking is not None:
        template = dict(extra.get("chat_template_kwargs") or {})
        extra["chat_template_kwargs"] = {**template, "enable_thinking": sampling.enable_thinking}
    return {**arguments, "extra_body": extra} if extra else arguments
