"""The body of an image run: builds a folder with a Dockerfile into an image at the hub, for all workers."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from envhub.protocol.runs import FailureKind
from envhub.protocol.sandboxes.images import ImageBuildPayload, ImageBuilt, ImageView

from workers.images.archives import unpack_folder
from workers.images.dockerfile.archive import write_archive
from workers.images.dockerfile.builder import Bench
from workers.images.dockerfile.errors import BuildFailed, DockerfileError
from workers.images.dockerfile.images import built_image
from workers.images.errors import BadImage
from workers.images.interface import ImageLacking
from workers.images.sources import RunImages
from workers.images.streams import Budget
from workers.rollouts.image_builds import BuildBoxes
from workers.rollouts.interceptor.data import open_data
from workers.rollouts.outside.repositories import WithRepositories
from workers.rollouts.outside.server import OutsideServer
from workers.rollouts.package_stores import open_stores
from workers.rollouts.sandbox_choice import chosen_sandbox
from workers.rollouts.sandboxes import repositories_of
from workers.runs.errors import RunFailed
from workers.runs.execution import Job
from workers.sandbox import SandboxError

TOLD = 10  # unanswered addresses named in the hint


async def run_image_build(job: Job) -> None:
    """Build, upload and report the image. Raises RunFailed."""
    payload = ImageBuildPayload.model_validate(job.claim.payload)
    lacking: dict[tuple[str, str], None] = {}
    async with AsyncExitStack() as stack:
        place = job.settings.folder("image-builds")
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=place, prefix=".")))
        images = RunImages(job.run, job.settings)
        boxes = await stack.enter_async_context(_boxes(job, lacking))
        with _translated(payload.name, lacking):
            await _build(job, payload, folder, images, boxes.bench(job.lease.log))


async def _build(job: Job, payload: ImageBuildPayload, folder: Path, images: RunImages, bench: Bench) -> None:
    job.lease.progress(0, 2, "stages", "building")
    context, archive = folder / "context", folder / "image.tar"
    context.mkdir()
    packed = await job.artifacts.fetch_blob(payload.context)
    await asyncio.to_thread(unpack_folder, packed, context, Budget(max_bytes=bench.max_bytes))
    building = built_image(
        payload.name,
        context,
        images,
        bench,
        salt=job.claim.owner,
        lock=asyncio.Lock(),
        dockerfile=payload.dockerfile,
        arguments=payload.arguments,
    )
    async with building as image:
        job.lease.progress(1, 2, "stages", "uploading")
        await asyncio.to_thread(write_archive, image, archive, bench.fresh_budget())
    sha256 = await job.artifacts.upload_blob(archive)
    await job.run.post("/images/built", ImageBuilt(sha256=sha256, size=archive.stat().st_size), ImageView)


@contextmanager
def _translated(name: str, lacking: Mapping[tuple[str, str], None]) -> Iterator[None]:
    try:
        yield
    except (DockerfileError, ImageLacking) as error:
        raise _failed(f"{name} cannot be built: {error}", error.hint) from error
    except BuildFailed as error:
        said = f"\n{error.output}" if error.output else ""
        raise _failed(f"{name} cannot be built: {error}{said}", _hint(lacking)) from error
    except BadImage as error:
        raise _failed(f"the folder of {name} cannot be unpacked: {error}") from error
    except SandboxError as error:
        raise RunFailed.because(FailureKind.INFRASTRUCTURE, error.code, error.message, error.hint) from error


@asynccontextmanager
async def _boxes(job: Job, lacking: dict[tuple[str, str], None]) -> AsyncIterator[BuildBoxes]:
    async with open_data(job.run) as data, open_stores(job.settings) as stores:
        files = WithRepositories(repositories_of(job, await chosen_sandbox(job.settings)), data.files())
        yield BuildBoxes(job.settings, stores, OutsideServer(files, job.lease.log, lacking))


def _failed(message: str, hint: str = "") -> RunFailed:
    return RunFailed.because(FailureKind.ENVIRONMENT, "image_not_built", message, hint)


def _hint(lacking: Mapping[tuple[str, str], None]) -> str:
    """Return a hint about the steps' unanswered requests: add the files, or allow the hosts."""
    asked = [url for _, url in lacking][:TOLD]
    return f"its steps found no answer at {', '.join(asked)}: `hub data add URL FILE --kind file`" if asked else ""
