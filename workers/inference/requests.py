"""The protocol between runs and the host's engine manager: one JSON line each way on a unix socket.

The connection is the reference: the engine stays while it is open, and the connection closes when the caller dies.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from envhub.protocol.base import Request, Response

SOCKET = "engines.sock"


class EngineRequest(Request):
    """A request for an engine for a model directory. Requests with the same fields share an engine."""

    fingerprint: str
    engine: Literal["torch", "vllm"]
    directory: Path
    name: str  # the model's name in requests: "owner/name"
    adapter: Path | None = None  # a LoRA adapter's directory; then `name` is the adapter on the model
    gpus: int = 0  # number of GPUs over which vLLM splits the model; 0: as few as can hold it


class EngineReply(Response):
    """The engine's `base_url` ("http://127.0.0.1:PORT/v1") and key when it is ready, else `error` with a hint.

    busy: it could be served here later, when GPUs are free or the host has recovered.
    """

    base_url: str = ""
    key: str = ""
    gpus: int = 0  # how many the engine holds
    error: str = ""
    hint: str = ""
    busy: bool = False
