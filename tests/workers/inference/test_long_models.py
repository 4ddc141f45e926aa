"""A model that reads longer texts than this machine's memory holds is served, with as much as fits."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import httpx
import pytest

from workers.inference.process import EngineProcess, free_port, vllm_command
from workers.inference.requests import EngineRequest
from workers.runs.children import Children

pytestmark = [pytest.mark.vllm, pytest.mark.torch, pytest.mark.matrix]
WHOLE = 262_144
LITTLE = ("--dtype", "float32", "--enforce-eager", "--kv-cache-memory-bytes", str(16 * 1024**2), "--max-num-seqs", "8")


async def test_vllm_serves_a_long_model_with_the_length_that_fits(tmp_path: Path, tiny_model: Path) -> None:
    model = Path(shutil.copytree(tiny_model, tmp_path / "long"))
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"max_position_embeddings": WHOLE}))
    (tmp_path / "children").mkdir()
    request, port = EngineRequest(fingerprint="f", engine="vllm", directory=model, name="long"), free_port()
    command = vllm_command(request, port, os.environ["VLLM_PYTHON"], LITTLE)
    extra, children = {"VLLM_CPU_CI_ENV": "1"}, Children(tmp_path / "children")
    process = await EngineProcess.start(command, port, children=children, extra=extra, home=tmp_path)
    try:
        await process.wait_ready(300)
        async with httpx.AsyncClient(
            base_url=process.address.base_url, headers=process.address.headers, timeout=60
        ) as http:
            (entry,) = (await http.get("/models")).json()["data"]
            assert 512 < entry["max_model_len"] < WHOLE
            asked = {"model": "long", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3}
            assert (await http.post("/chat/completions", json=asked)).status_code == 200
    finally:
        await process.stop()
