"""Index pages against a static file of the same size by the same nginx: requests a second, by wrk."""

from __future__ import annotations

import re
import shutil
import subprocess

import httpx

from tests.bench.load.site import USER, Site

JSON = "application/vnd.pypi.simple.v1+json"
LEAST = 0.7
SECONDS, ROUNDS = 5, 3


def compare(site: Site) -> bool:
    """Prints a line for each page; whether all reach LEAST of the static file's rate. They take turns."""
    if shutil.which("wrk") is None:
        print("index pages: wrk is not installed, not measured")
        return True
    fine = True
    for name, path in (("owner's list", f"/index/{USER}/simple/"), ("project", f"/index/{USER}/simple/tiny-env/")):
        body = httpx.get(site.url + path, headers={"Accept": JSON}, trust_env=False).raise_for_status().content
        (site.static / "page.json").write_bytes(body)
        urls = {"static": f"{site.static_url}/page.json", "hub": site.url + path}
        rates: dict[str, list[float]] = {side: [] for side in urls}
        for _ in range(ROUNDS):
            for side, url in urls.items():
                rates[side].append(rate_of(url))
        best = {side: max(found) for side, found in rates.items()}
        direct = rate_of(f"http://127.0.0.1:{site.hub.hub_ports[0]}{path}", connections=8)
        ratio = best["hub"] / best["static"]
        fine &= ratio >= LEAST
        print(
            f"index, {name} of {len(body)} bytes: nginx's own file {best['static']:.0f}/s, through nginx"
            f" {best['hub']:.0f}/s, ratio {ratio:.2f} (at least {LEAST}); one hub process alone {direct:.0f}/s",
            flush=True,
        )
    return fine


def rate_of(url: str, connections: int = 32) -> float:
    """Requests a second. Raises AssertionError when any was not answered 200."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{SECONDS}s", "-H", f"Accept: {JSON}", url]
    told = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "Non-2xx" not in told, told
    assert "Socket errors" not in told, told
    found = re.search(r"Requests/sec:\s+([\d.]+)", told)
    assert found is not None, told
    return float(found[1])
