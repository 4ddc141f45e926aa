"""The calls of podman's API, against a service that answers as podman does on a busy host."""

from pathlib import Path

import aiohttp
import pytest
from aiohttp import web

from workers.sandbox import BoxFailed
from workers.sandbox.engine import podman
from workers.sandbox.engine.podman import Podman

FAILED = [{"Id": "box", "Err": {}, "RawInput": "box"}]  # with status 200; Go's errors have no fields


@pytest.mark.parametrize(("failures", "is_removed"), [(2, True), (3, False)])
async def test_a_container_that_cannot_be_removed_yet_is_tried_again(
    root: Path, monkeypatch: pytest.MonkeyPatch, failures: int, is_removed: bool
) -> None:
    answers = [FAILED] * failures + [[{"Id": "box", "RawInput": "box"}]]
    monkeypatch.setattr(podman, "REMOVE_PAUSES", (0.0, 0.0))

    async def remove(request: web.Request) -> web.Response:
        assert request.query["force"] == "true"
        return web.json_response(answers.pop(0))

    service = web.Application()
    service.router.add_delete("/v4.0.0/libpod/containers/box", remove)
    runner = web.AppRunner(service)
    await runner.setup()
    await web.UnixSite(runner, str(root / "podman.sock")).start()
    try:
        async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(root / "podman.sock"))) as http:
            if is_removed:
                await Podman(http, "").remove("box")
                assert not answers
            else:
                with pytest.raises(BoxFailed, match="could not remove"):
                    await Podman(http, "").remove("box")
    finally:
        await runner.cleanup()
