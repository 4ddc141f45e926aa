"""Locks a package's dependencies with uv, unprivileged: under its generation's constraints, only from wheels."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from envhub.protocol.runs import Failure, FailureKind
from packaging.requirements import InvalidRequirement, Requirement
from packaging.tags import Tag
from uv import find_uv_bin

from workers.builds.errors import BuildFailed
from workers.builds.index.catalog import Catalog
from workers.builds.index.gateway import IndexGateway, Metadata
from workers.builds.index.tokens import HOST, FileAddresses
from workers.index.pages import IndexFile
from workers.runs.disk_full import DISK_FULL, says_disk_full
from workers.runs.errors import RunFailed
from workers.sandbox import make_folder
from workers.venvs.unprivileged import Tool, hand_over, run_tool

TIMEOUT = 900.0
ABSENT = re.compile(r"(\S+)\s+was\s+not\s+found\s+in\s+the\s+package\s+registry")  # as uv says it
SUMMARY = 1900  # characters of an explanation; a longer one is also given whole in the check's detail


@dataclass(frozen=True)
class Question:
    """What to resolve. `constraints` and `overrides` are lines of uv's files."""

    requirements: tuple[str, ...]
    constraints: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    owner: str = "-"
    prerelease: str = ""  # uv's mode, if the package sets one


@dataclass(frozen=True)
class Chosen:
    """One distribution in the answer: a wheel to fetch, or a source that became a wheel (`source`)."""

    name: str
    version: str
    file: IndexFile
    source: bool
    owned: bool


class Conflict(BuildFailed):
    """Raised if no set of versions satisfies the question, with uv's explanation."""


def check_requirements(requirements: Sequence[str]) -> None:
    """Refuse invalid requirements and direct references (uv would fetch them or run git). Raises BuildFailed."""
    for line in requirements:
        try:
            requirement = Requirement(line)
        except InvalidRequirement as error:
            raise BuildFailed("bad_requirement", f"{line!r} is not a requirement: {error}") from error
        if requirement.url is not None:  # the package's own were already replaced by versions
            raise BuildFailed("direct_reference", f"{line!r} contains an address instead of a version")


async def resolve(question: Question, catalog: Catalog, metadata_of: Metadata, *, cache: Path) -> tuple[Chosen, ...]:
    """Resolve the whole set. Raises BuildFailed (dependency_conflict, source_does_not_build, ...) and RunFailed."""
    try:
        return await resolve_once(question, catalog, metadata_of, cache=cache)
    except Conflict as conflict:
        return await resolve_again(question, catalog, metadata_of, conflict, cache=cache)


async def resolve_once(
    question: Question, catalog: Catalog, metadata_of: Metadata, *, cache: Path
) -> tuple[Chosen, ...]:
    """Resolve without a second look at what the index offers. Also raises Conflict."""
    check_requirements([*question.requirements, *question.constraints, *question.overrides])
    return await _ask(question, catalog, IndexGateway(catalog, metadata_of), cache)


async def resolve_again(
    question: Question, catalog: Catalog, metadata_of: Metadata, conflict: Conflict, *, cache: Path
) -> tuple[Chosen, ...]:
    """Resolve again with fresh pages and more files.

    A single version may lack a wheel, the hub may have what the index lost, or torch for the CPU may be too old.
    """
    for all_torch in (False, True):
        if all_torch and not (catalog.torch and catalog.torch.preferred):
            break
        fuller = replace(catalog, second_try=True, all_torch=all_torch)
        try:
            return await _ask(question, fuller, IndexGateway(fuller, metadata_of), cache, "--refresh")
        except Conflict:
            continue
    raise conflict


async def _ask(
    question: Question, catalog: Catalog, gateway: IndexGateway, cache: Path, *more: str
) -> tuple[Chosen, ...]:
    cache.mkdir(parents=True, exist_ok=True)
    work = make_folder()
    try:
        async with gateway.listen() as proxy:
            tool = _tool(question, catalog, gateway, proxy=proxy, work=work, cache=cache)
            result = await run_tool(replace(tool, argv=[*tool.argv, *more]))
    finally:
        shutil.rmtree(work, ignore_errors=True)
    if result.exit_code == 0:
        return read_answer(result.stdout, catalog.addresses, catalog.interpreter.tags())
    if gateway.problem is not None:
        raise gateway.problem
    if says_disk_full(result.stderr):
        raise RunFailed(DISK_FULL)
    told = _explanation(result.stderr)
    if str(cache) in told and "Permission denied" in told:
        raise RunFailed(_cache_refused(told))
    raise Conflict(
        "dependency_conflict",
        f"The dependencies cannot be resolved: {told[:SUMMARY]}",
        hint=_hint(told),
        detail=told if len(told) > SUMMARY else "",
    )


def _hint(told: str) -> str:
    absent = sorted(set(ABSENT.findall(told)))
    if not absent:
        return "Relax or correct the requirements in pyproject.toml."
    return (
        f"No index of this hub has {', '.join(absent[:5])}. Push it to the same owner if it is a package of yours, or "
        "ask the operator to add its index (HUB_PACKAGE_INDEX_URL, WORKER_PACKAGE_INDEX_URL)."
    )


def _tool(question: Question, catalog: Catalog, gateway: IndexGateway, *, proxy: str, work: Path, cache: Path) -> Tool:
    work.chmod(0o755)
    home = work / "home"
    hand_over(home)
    files = {"requirements.in": question.requirements, "constraints": question.constraints}
    files["overrides"] = question.overrides
    for name, lines in files.items():
        (work / name).write_text("".join(f"{line}\n" for line in lines))
    operator, owner = gateway.roots(question.owner)
    argv = [find_uv_bin(), "pip", "compile", "--no-config", "--no-build", "--no-python-downloads", "--no-progress"]
    argv += ["--no-header", "--color", "never", "--format", "pylock.toml", "--keyring-provider", "disabled"]
    argv += ["--index-strategy", "first-index", "--index", operator, "--default-index", owner]
    argv += ["--python", str(catalog.interpreter.executable), "--cache-dir", str(cache)]
    argv += ["--constraints", str(work / "constraints"), "--overrides", str(work / "overrides")]
    argv += ["--prerelease", question.prerelease] if question.prerelease else []
    env = {"HOME": str(home), "UV_HTTP_TIMEOUT": str(int(TIMEOUT)), "UV_HTTP_RETRIES": "0", "NO_PROXY": ""}
    env |= dict.fromkeys(("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY"), proxy)
    return Tool(
        [*argv, str(work / "requirements.in")],
        cwd=home,
        env=env,
        reads=[catalog.interpreter.prefix, work],
        writes=[home, cache],
        timeout=TIMEOUT,
        memory_bytes=64 * 1024**3,  # address space: uv reserves much more than it uses
    )


def read_answer(text: str, addresses: FileAddresses, tags: Sequence[Tag]) -> tuple[Chosen, ...]:
    """Read the packages of a pylock.toml, each with its best wheel. Refuses addresses that are not ours."""
    ranks = {tag: rank for rank, tag in enumerate(tags)}
    chosen: list[Chosen] = []
    for package in tomllib.loads(text).get("packages", []):
        found = [addresses.read(entry["url"]) for entry in package.get("wheels", [])]
        best = min(found, key=lambda one: _rank(one[1], ranks), default=None)
        if best is None:
            raise Conflict("dependency_conflict", f"{package['name']} has no wheel for this machine")
        kind, file, owned = best
        chosen.append(Chosen(package["name"], str(package["version"]), file, kind == "source", owned))
    return tuple(chosen)


def _rank(file: IndexFile, ranks: dict[Tag, int]) -> int:
    return min((ranks[tag] for tag in file.wheel_tags if tag in ranks), default=len(ranks))


def _cache_refused(told: str) -> Failure:
    return Failure(
        kind=FailureKind.INFRASTRUCTURE,
        code="worker_cache_refused",
        message=f"The worker may not write its cache of packages: {told[:SUMMARY]}",
        hint="Ask its operator to delete the folder `uv` in WORKER_DATA (a copy of the folder may have lost its "
        "owner), then start the build again (`hub env rebuild`).",
    )


def _explanation(stderr: str) -> str:
    """Return uv's message without warnings and without hints about the indexes that exist only in this build."""
    said = [line for line in stderr.splitlines() if line.strip() and not line.startswith("warning")]
    lines = [line for line in said if not (line.lstrip().startswith("hint:") and HOST in line)]
    return "\n".join(lines).removeprefix("error: ")
