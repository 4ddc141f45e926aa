"""Many pushes at the same moment, by the SDK's client: distinct packages, and one by everybody."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier

from envhub.client import HubClient
from envhub.protocol.registry.packages import PushFile, PushRequest

from tests.bench.load.site import USER, Site
from tests.bench.load.timings import Timings
from tests.factories.packages import LEGACY_SOURCE, make_sdist, make_wheel, sha256


@dataclass(frozen=True)
class Package:
    """A wheel and an sdist, and what announces them."""

    request: PushRequest
    wheel: Path
    sdist: Path

    @classmethod
    def make(cls, folder: Path, name: str) -> Package:
        """A small one with 100 KB of data."""
        files = {f"{name.replace('-', '_')}.py": LEGACY_SOURCE, "data.txt": f"{name} " * 10_000}
        wheel, sdist = (make(folder, name, "0.1.0", files=files) for make in (make_wheel, make_sdist))
        pushed = [
            PushFile(filename=path.name, sha256=sha256(path), size=path.stat().st_size) for path in (wheel, sdist)
        ]
        return cls(PushRequest(name=name, version="0.1.0", wheel=pushed[0], sdist=pushed[1]), wheel, sdist)


def push_all(site: Site, folder: Path, distinct: int, same: int) -> bool:
    """Prints both; whether every push succeeded and every version is there once."""
    token = site.hub.make_token(USER, "read,write")
    packages = [Package.make(folder, f"pushed-{number}") for number in range(distinct)]
    fine = _push(site, token, packages, "distinct packages")
    return _push(site, token, [Package.make(folder, "pushed-by-all")] * same, "the same package") and fine


def _push(site: Site, token: str, packages: list[Package], what: str) -> bool:
    timings, barrier = Timings(), Barrier(len(packages) + 1)

    def push(package: Package) -> str:
        with HubClient(site.url, token) as hub:
            barrier.wait()
            with timings.taken("push"):
                done = hub.environments.push(USER, package.request, package.wheel, package.sdist)
        return done.version.id

    with ThreadPoolExecutor(len(packages)) as pool:
        running = [pool.submit(push, package) for package in packages]
        barrier.wait()
        began = time.perf_counter()
        found = {each.result() for each in running if each.exception() is None}
        seconds = time.perf_counter() - began
    print(f"{len(packages)} pushes of {what} at once: {seconds:.1f} s, {len(found)} versions")
    timings.print()
    return not timings.failures and len(found) == len({package.request.name for package in packages})
