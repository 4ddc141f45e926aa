"""`python -m tests.workers.training.runs.worker HUB CLAIM DATA`: one attempt in a process that a test can kill."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from unittest import mock

from envhub.protocol.runs import Claim

from tests.workers.training.runs.trainings import installed
from workers.runs.children import Children
from workers.runs.execution import execute
from workers.runs.hub import HubClient
from workers.settings import WorkerEnvironment
from workers.training.run import run_training


async def main(hub_url: str, claim: Claim, data: Path) -> None:
    """Ends what an earlier life left, then runs the attempt."""
    venv = installed()

    async def ready(*_: object, **__: object) -> Path:
        return venv

    settings = WorkerEnvironment(data=data, heartbeat_seconds=0.2, hub_patience_s=60)
    Children(settings.folder("children")).kill_leftovers()
    with mock.patch("workers.training.coordinator.sources.ensure_environment", ready):
        async with HubClient(hub_url, "hubw_good", patience_s=60) as client:
            await execute(client, claim, run_training, settings, asyncio.Event())


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Claim.model_validate_json(sys.argv[2]), Path(sys.argv[3])))
