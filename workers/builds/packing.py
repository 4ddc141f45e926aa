"""Handles a build run for an uploaded folder: builds wheel and sdist in a box, then pushes them."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from envhub import errors
from envhub.errors import PackageError
from envhub.packaging.archives.reading import safe_members
from envhub.packaging.archives.sdist_readme import add_readme
from envhub.packaging.left_behind import has_environment
from envhub.packaging.metadata import README_FILES, read_wheel_metadata
from envhub.packaging.source_archives import named_below, projects_below, repack_source
from envhub.protocol.registry.builds import SourcePacked, SourcePayload
from envhub.protocol.registry.packages import PushFile, VersionView
from envhub.protocol.runs import FailureKind

from workers.builds.errors import BuildFailed
from workers.builds.index.catalog import Catalog
from workers.builds.index.tokens import FileAddresses
from workers.builds.sources.box import USUAL_HINT
from workers.builds.sources.building import Distributions, Material, Sources
from workers.builds.sources.wheel_exchange import HubExchange
from workers.builds.sources.wheel_files import WheelFiles
from workers.index.client import IndexClient, connect
from workers.index.find_links import FindLinks
from workers.index.settings import operator_indexes
from workers.rollouts.sandbox_choice import chosen_sandbox
from workers.runs.errors import RunFailed
from workers.runs.execution import Job
from workers.venvs import interpreters
from workers.venvs.errors import NoPython, ToolFailed, VenvError

EPOCH = 1580601600  # as for `hub push`: the same source gives the same bytes
OWN_HINT = "Mend what the log says, and upload it again."
REFUSED = (errors.Conflict, errors.Invalid, errors.TooLarge, errors.NotAllowed)


async def pack_source(job: Job, payload: SourcePayload) -> None:
    """Build, upload and push the package. Raises RunFailed, with the hub's own message if it refuses the package."""
    archive = await job.artifacts.fetch_blob(payload.source)
    place = job.settings.folder("source-builds")
    with tempfile.TemporaryDirectory(dir=place, prefix=".") as name:
        try:
            files = await _distributions(job, payload, archive, Path(name))
            packed = await _uploaded(job, *files)
            await job.run.post(f"/runs/{job.claim.run_id}/packed", packed, VersionView)
        except BuildFailed as error:
            if error.detail:
                job.lease.log(error.detail)
            hint = OWN_HINT if error.failure.hint in {"", USUAL_HINT} else error.failure.hint
            raise RunFailed(error.failure.model_copy(update={"hint": hint})) from error
        except ToolFailed:
            raise  # a fault of this worker
        except (VenvError, PackageError, *REFUSED) as error:
            raise RunFailed.because(FailureKind.ENVIRONMENT, error.code, str(error), error.hint) from error
    job.lease.log(f"pushed {payload.name} {packed.version}")


async def _distributions(job: Job, payload: SourcePayload, archive: Path, place: Path) -> tuple[Path, Path]:
    """Build wheel and sdist below `place`. Raises BuildFailed, PackageError.

    Of a repository's own project, which is no environment, the error names the packages below it.
    """
    source, projects = place / "source.tar.gz", await asyncio.to_thread(projects_below, archive, payload.folder)
    below = named_below(projects)
    hint = f"{below} Pack the folder of one of them, and upload that." if below else ""
    readme = await asyncio.to_thread(repack_source, archive, payload.folder, source)
    material = Material(source, payload.filename, payload.name, payload.source.sha256)
    async with _sources(job, payload) as sources:
        try:
            made = await sources.pack(material)
        except BuildFailed as error:
            if not hint:
                raise
            said = error.failure.hint.replace(USUAL_HINT, "")
            raise BuildFailed(error.code, str(error), hint=f"{said} {hint}".strip(), detail=error.detail) from error
    wheel, sdist = await asyncio.to_thread(_written, made, readme, place)
    if hint and not await asyncio.to_thread(has_environment, wheel):
        raise PackageError(
            f"{payload.name} has no environment: no load_environment, and no taskset",
            code="no_environment",
            hint=hint,
        )
    return wheel, sdist


@asynccontextmanager
async def _sources(job: Job, payload: SourcePayload) -> AsyncIterator[Sources]:
    """Open what builds the package, with only the operator's index, as for every source."""
    settings, folder = job.settings, job.settings.folder
    indexes = operator_indexes(settings.package_index_url)
    addresses = FileAddresses(folder("uv").parent / "index-key")
    interpreter = _interpreter(payload.requires_python)
    async with connect() as http:
        operator = IndexClient(http, indexes.urls, links=FindLinks(http, indexes.find_links))
        catalog = Catalog(operator, None, frozenset(), interpreter, addresses)
        exchange, files = HubExchange(job.run, job.artifacts), WheelFiles(folder("blobs"))
        sandbox, log = await chosen_sandbox(settings), job.lease.log
        yield Sources(catalog, files, exchange, sandbox, folder("venvs"), folder("sources"), folder("uv"), log)


def _interpreter(requires_python: str) -> interpreters.Interpreter:
    """Choose a Python for the backend. Any will do; the version's own build checks that the package fits."""
    try:
        return interpreters.choose(requires_python)
    except NoPython:
        return interpreters.present()[0]


def _written(made: Distributions, readme: Path | None, place: Path) -> tuple[Path, Path]:
    out = place / "out"
    out.mkdir()
    wheel, sdist = out / (made.wheel_name or "wheel"), out / (made.sdist_name or "sdist")
    wheel.write_bytes(made.wheel)
    sdist.write_bytes(made.sdist)
    if readme is not None and not read_wheel_metadata(wheel).readme and not _has_readme(sdist):
        add_readme(sdist, readme, mtime=EPOCH)
    return wheel, sdist


def _has_readme(sdist: Path) -> bool:
    parts = [member.path.split("/") for member in safe_members(sdist)]
    return any(len(path) == 2 and path[1] in README_FILES for path in parts)


async def _uploaded(job: Job, wheel: Path, sdist: Path) -> SourcePacked:
    version = read_wheel_metadata(wheel).version
    pair = []
    for path in (wheel, sdist):
        sha256 = await job.artifacts.upload_blob(path)
        pair.append(PushFile(filename=path.name, sha256=sha256, size=path.stat().st_size))
    return SourcePacked(version=version, wheel=pair[0], sdist=pair[1])
