"""What a run asks the host's engine manager for, and what it answers: one JSON line each way on a unix socket.

The connection is the reference: while it is open the engine stays; when the asker dies, it closes by itself.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from envhub.protocol.base import Request, Response

SOCKET = "engines.sock"


class EngineRequest(Request):
    """An engine for a model directory. `fingerprint` and `engine` name it; several runs share one."""

    fingerprint: str
    engine: Literal["torch", "vllm"]
    directory: Path
    name: str  # what the model is called in requests: "owner/name"
    adapter: Path | None = None  # a LoRA adapter's directory: `name` is then the adapter over the model
    gpus: int = 0  # over which vLLM splits the model; 0: as few as hold it


class EngineReply(Response):
    """`base_url` ("http://127.0.0.1:PORT/v1") and its key when it is ready, else `error` with a hint.

    busy: it could be served here later, when GPUs are free.
    """

    base_url: str = ""
    key: str = ""
    error: str = ""
    hint: str = ""
    busy: bool = False
