from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from tests.workers.package_index import PackageIndex
from tests.workers.wheels import make_wheel
from workers.builds.index_client import IndexClient
from workers.runs.errors import RunFailed


async def test_where_one_index_refuses_the_next_one_is_read(index: PackageIndex, tmp_path: Path) -> None:
    index.add(make_wheel(tmp_path, "thing"))
    async with PackageIndex(password="secret").serve() as private, httpx.AsyncClient() as http:
        files = await IndexClient(http, [private, index.url]).files("thing")
    assert files is not None
    assert [file.filename for file in files] == ["thing-1.0-py3-none-any.whl"]


async def test_what_no_index_has_while_one_refuses_is_no_missing_project(index: PackageIndex) -> None:
    async with PackageIndex(password="secret").serve() as private, httpx.AsyncClient() as http:
        with pytest.raises(RunFailed, match=r"refuses .*/thing/ \(401\)"):
            await IndexClient(http, [private, index.url]).files("thing")
