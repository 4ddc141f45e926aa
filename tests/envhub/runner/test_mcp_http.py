"""Tools of the current generation as the in-process harness reaches them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from envhub.runner.current import tools as toolsets
from envhub.runner.current.mcp_http import McpError, McpTools


class Frozen:
    """A toolset with one tool, which never answers."""

    async def list_tools(self) -> list[dict[str, Any]]:
        return [{"name": "wait"}]

    async def call(self, url: str, name: str, arguments: dict[str, Any]) -> list[dict[str, Any]]:
        await asyncio.sleep(3600)
        return []


async def test_a_tool_in_this_process_has_the_harnesss_time_limit_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(toolsets._servers, "frozen", Frozen())  # type: ignore[misc]
    tools = McpTools(None, {"": f"{toolsets.SCHEME}://frozen/mcp"}, 0.05, ())
    await tools.discover()
    async with asyncio.timeout(5):
        with pytest.raises(McpError, match=r"wait: no answer within 0\.05 s"):
            await tools.call("wait", {})
