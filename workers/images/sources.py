"""Get the images of a run's sandboxes from three sources, in this order.

They are an archive that the hub keeps, a registry that the operator allows, and hub/base, as itself or in place of
another image. Unpacked images are found by their digest.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import urlencode

from envhub import errors
from envhub.protocol.sandboxes.images import ImagePinned, ImagePulled, ImageSource, Layout, canonical, python_wanted

from workers.images.archives import unpack
from workers.images.base import CONFIG, ensure_base
from workers.images.config import ImageConfig
from workers.images.errors import BadImage
from workers.images.interface import BASE, Image, ImageLacking
from workers.images.registry import PullFailed, Registry
from workers.images.store import Holding, Store
from workers.images.streams import MIB, Budget
from workers.runs.artifacts import Artifacts
from workers.runs.hub import RunClient
from workers.settings import WorkerEnvironment

logger = logging.getLogger(__name__)


@dataclass
class Use:
    """An image in use by some of the run's sandboxes."""

    image: Image
    holding: Holding
    users: int = 0


@dataclass(frozen=True)
class Failure:
    """The last attempt to get an image that failed, by time.monotonic()."""

    error: ImageLacking
    moment: float

    def named(self, name: str) -> ImageLacking:
        return ImageLacking(name, self.error.message, self.error.hint)


class RunImages:
    """The images of one run.

    An image in use is not removed, and its name keeps its meaning as long as the image stays.
    """

    def __init__(
        self,
        run: RunClient,
        settings: WorkerEnvironment,
        *,
        base: Callable[[Store], Awaitable[Holding]] = ensure_base,
    ) -> None:
        self._run, self._base = run, base
        self._max_bytes = settings.image_mb * MIB
        self.store = Store(settings.folder("images"), max_bytes=settings.images_mb * MIB)
        self._artifacts = Artifacts(run, settings.folder("blobs"), cache_bytes=settings.cache_mb * MIB)
        authfile = Path(settings.image_authfile) if settings.image_authfile else None
        self._registry = Registry(authfile=authfile, max_bytes=self._max_bytes)
        self._one_each: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._known: dict[str, Image] = {}  # what each name means in this run
        self._used: dict[str, Use] = {}
        self._failures: dict[str, Failure] = {}

    @asynccontextmanager
    async def using(self, name: str) -> AsyncIterator[Image]:
        """Yield the image of that name.

        Raises ImageLacking; errors of the hub (envhub.errors, LeaseLost) pass through. Those who wait while an attempt
        fails are told of that failure, or each would try (and wait for) another.
        """
        asked = time.monotonic()
        try:
            known = canonical(name)
        except ValueError as error:
            raise ImageLacking(name, str(error), "write it as a container engine takes it: python:3.11-slim") from error
        async with self._one_each[known]:
            if known not in self._used:
                failure = self._failures.get(known)
                if failure is not None and failure.moment > asked:
                    raise failure.named(name)
                try:
                    self._used[known] = await self._take(known)
                except ImageLacking as error:
                    self._failures[known] = Failure(error, time.monotonic())
                    raise ImageLacking(name, error.message, error.hint) from error
            use = self._used[known]
            use.users += 1
        try:
            yield replace(use.image, name=name)
        finally:
            use.users -= 1
            if not use.users:
                del self._used[known]
                use.holding.release()

    async def _take(self, name: str) -> Use:
        """Return an image that the run knows, unless the store had to remove it meanwhile; otherwise find it."""
        image = self._known.get(name)
        if image is not None and (holding := await self.store.take(image.digest)) is not None:
            return Use(image, holding)
        use = await self._find(name)
        self._known[name] = use.image
        return use

    async def _find(self, name: str) -> Use:
        source = await self._ask(name)
        try:
            if source.blob is not None and source.layout is not None:
                return _use(name, await self._added(source, source.layout))
            if source.reference or source.digest:
                return _use(name, await self._pulled(source))
        except BadImage as error:
            raise ImageLacking(name, f"the image {name} cannot be unpacked: {error}", _by_hand(name)) from error
        except PullFailed as error:
            if not source.stand_in:
                raise ImageLacking(name, f"the image {name} cannot be pulled: {error}", _by_hand(name)) from error
            logger.warning("the image %s cannot be pulled: %s", name, error)
        return await self._own(name)

    async def _ask(self, name: str) -> ImageSource:
        try:
            return await self._run.get(f"/images/source?{urlencode({'name': name})}", ImageSource)
        except errors.NotFound as error:
            if error.code != "image_lacking":
                raise
            raise ImageLacking(name, error.message, error.hint or "") from error

    async def _added(self, source: ImageSource, layout: Layout) -> Holding:
        blob = source.blob
        assert blob is not None

        async def make(root: Path) -> ImageConfig:
            archive = await self._artifacts.fetch_blob(blob)
            config = await asyncio.to_thread(unpack, archive, layout, root, Budget(max_bytes=self._max_bytes))
            return CONFIG if source.name == BASE and layout == "rootfs" else config

        return await self.store.ensure(f"sha256:{blob.sha256}", make)

    async def _pulled(self, source: ImageSource) -> Holding:
        if source.digest and (kept := await self.store.take(source.digest)) is not None:
            return _from_registry(kept)
        if not source.reference:
            raise PullFailed("its registry is no longer in HUB_IMAGE_REGISTRIES")
        digest = source.digest or await self._pin(source)

        async def make(root: Path) -> ImageConfig:
            async with self._registry.pulled(source.reference, digest, root.parent) as layout:
                return await asyncio.to_thread(unpack, layout, "oci", root, Budget(max_bytes=self._max_bytes))

        return _from_registry(await self.store.ensure(digest, make, pulled=True))

    async def _pin(self, source: ImageSource) -> str:
        """Return the digest to which the name is pinned, by this worker or by one that asked the registry earlier."""
        if "@" in source.name:
            return source.name.partition("@")[2]
        found = await self._registry.digest(source.reference, self.store.folder)
        pinned = await self._run.post("/images/pin", ImagePulled(name=source.name, digest=found), ImagePinned)
        return pinned.digest

    async def _own(self, name: str) -> Use:
        """Return hub/base, as itself or in place of another image. Raises ImageLacking."""
        source = await self._ask(BASE)
        if source.blob is not None and source.layout is not None:
            holding = await self._added(source, source.layout)
        else:
            holding = await self._base(self.store)
        has, wants = holding.kept.python, python_wanted(name)
        if name != BASE and wants and wants != has:
            holding.release()
            message = f"the image {name} cannot be had, and {BASE} has Python {has or 'unknown'}"
            raise ImageLacking(name, message, _by_hand(name) + "; or the operator sets HUB_IMAGE_REGISTRIES")
        return _use(name, holding, served_as="" if name == BASE else BASE)


def _from_registry(holding: Holding) -> Holding:
    """Refuse another owner's image: whoever names a digest must not get what was added or built under it."""
    if not holding.kept.pulled:
        holding.release()
        raise PullFailed("the image of this digest on the worker is not from a registry")
    return holding


def _use(name: str, holding: Holding, *, served_as: str = "") -> Use:
    kept = holding.kept
    config = kept.config
    image = Image(
        name=name,
        digest=kept.digest,
        root=holding.root,
        served_as=served_as,
        env=config.env,
        workdir=config.workdir,
        command=config.command,
    )
    return Use(image, holding)


def _by_hand(name: str) -> str:
    return f"hub image add {name} TAR"
