"""People who have the page of a running evaluation open: what the page asks by itself, as htmx asks it."""

from __future__ import annotations

import asyncio
import html
import random
import re
from dataclasses import dataclass, field

import httpx

from tests.bench.load.timings import Timings

POLL_S = 2.0  # what the page itself says
_POLL = re.compile(r'hx-get="([^"]+\?stored=\d+&amp;wait=\d+)"')


@dataclass
class Viewers:
    """`count` of them. Each loads the page of `path`, then asks for its figures, and for its rollouts when told to."""

    url: str
    path: str
    count: int
    timings: Timings = field(default_factory=Timings)

    async def run(self) -> None:
        """Until it is cancelled."""
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
        async with httpx.AsyncClient(base_url=self.url, trust_env=False, timeout=60, limits=limits) as http:
            await asyncio.gather(*(self._watch(http) for _ in range(self.count)))

    async def _watch(self, http: httpx.AsyncClient) -> None:
        await asyncio.sleep(random.uniform(0, POLL_S))
        with self.timings.taken("the page"):
            page = (await http.get(self.path)).raise_for_status()
        while (found := _POLL.search(page.text)) is not None:
            await asyncio.sleep(POLL_S)
            with self.timings.taken("its figures"):
                page = (await http.get(html.unescape(found.group(1)), headers=_htmx("live"))).raise_for_status()
            if page.headers.get("HX-Trigger") == "rollouts-stored":
                with self.timings.taken("its rollouts"):
                    (await http.get(self.path, headers=_htmx("results"))).raise_for_status()


def _htmx(target: str) -> dict[str, str]:
    return {"HX-Request": "true", "HX-Target": target, "Accept-Encoding": "gzip"}
