"""A model's directory is fetched whole, also when several runs of one process want it at the same time."""

from __future__ import annotations

import asyncio
from pathlib import Path

from envhub.protocol.models.catalog import LocalTarget

from workers.inference.engines import fetch_model

NAMES = ("config.json", "weights/one", "weights/two")
TARGET = LocalTarget(
    fingerprint="f" * 64,
    engine="torch",
    files={name: name for name in NAMES},
    urls={name: f"https://hub.example/{name}" for name in NAMES},
)


async def test_two_runs_that_fetch_one_model_at_once_both_get_it(tmp_path: Path) -> None:
    models, blobs = tmp_path / "models", tmp_path / "blobs"
    models.mkdir()
    blobs.mkdir()

    async def fetch_in(url: str, seconds: float) -> Path:
        await asyncio.sleep(seconds)
        blob = blobs / url.rpartition("/")[2]
        blob.write_text(url)
        return blob

    directories = await asyncio.gather(
        fetch_model(TARGET, models, lambda url, _: fetch_in(url, 0.01)),
        fetch_model(TARGET, models, lambda url, _: fetch_in(url, 0.012)),
    )
    assert directories == [models / TARGET.fingerprint] * 2
    assert {str(path.relative_to(directories[0])) for path in directories[0].rglob("*") if path.is_file()} == {*NAMES}
    assert [path.name for path in models.iterdir()] == [TARGET.fingerprint]
