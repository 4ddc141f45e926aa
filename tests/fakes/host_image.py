"""hub/base without a download: the image of tests.factories.images, in the place of those that a hub gives to a run."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from workers.broker.limits import BrokerLimits
from workers.images.interface import BASE, Image, ImageLacking
from workers.rollouts.package_stores import open_stores
from workers.rollouts.sandboxes import RunSandboxes, open_sandboxes
from workers.runs.execution import Job
from workers.sandbox import Sandbox
from workers.sandbox.doctor.own_image import OnImage, make_image


class OnlyBase:
    """See workers.images.interface.Images."""

    def __init__(self, image: Image) -> None:
        self._image = image

    @asynccontextmanager
    async def using(self, name: str) -> AsyncIterator[Image]:
        if name != BASE:
            raise ImageLacking(name, f"there is no image {name}", "hub image add")
        yield self._image


@asynccontextmanager
async def sandboxes_on_the_host(
    job: Job,
    sandbox: Sandbox,
    *,
    allow: Sequence[str] = (),
    shown: bool = True,
    within: BrokerLimits | None = None,
) -> AsyncIterator[RunSandboxes]:
    """As workers.rollouts.sandboxes.run_sandboxes, but the hub is not told of them."""
    root = job.settings.folder("host-image") / "root"
    if not root.exists():
        make_image(root)
        (root / "work").mkdir()
    images = OnlyBase(Image(BASE, "sha256:0", root, workdir="/work"))
    async with open_stores(job.settings) as stores:
        yield open_sandboxes(job, OnImage(sandbox, root), images, stores, allow=allow, within=within)
