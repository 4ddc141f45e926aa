"""Which hosts a sandbox may reach, as clients write it: a name, "*.name" or an address, with an optional ":port".

The run's list is the upper limit and holds exact "name" or "name:port" entries. A client's list selects from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from aiohttp import web
from envhub.protocol.base import JsonObject
from pydantic import BaseModel, Field

from workers.broker.bodies import read_json
from workers.broker.interface import Held
from workers.broker.refusals import Refusal

ALL = "*"
OWN = ("127.0.0.1", "localhost")  # a sandbox's own loopback, which its gateway uses: it is always reachable
Entries = Annotated[list[Annotated[str, Field(max_length=256)]], Field(max_length=1024)]


class Policy(BaseModel):
    allowlist: Entries | None = None
    denylist: Entries | None = None


def permitted(run_allows: Sequence[str], *, allow: Sequence[str], deny: Sequence[str]) -> tuple[str, ...]:
    """Return the run's hosts that the client's lists leave.

    Raises Refusal if the run does not allow a requested host.
    """
    allow = [entry for entry in allow if entry.strip().partition(":")[0].lower() not in OWN]
    lacking = [entry for entry in allow if entry != ALL and not any(_covers(entry, host) for host in run_allows)]
    if lacking:
        has = f"its list is: {', '.join(run_allows)}" if run_allows else "its sandboxes reach no host at all"
        raise Refusal(403, f"this run does not let sandboxes reach {', '.join(lacking[:5])[:300]} ({has}); "
                      "start the run with these hosts allowed, or do not ask for them")  # fmt: skip
    chosen = [host for host in run_allows if any(_covers(entry, host) for entry in allow)]
    return tuple(host for host in chosen if not any(_covers(entry, host) for entry in deny))


def _covers(entry: str, host: str) -> bool:
    """Return whether a client's entry matches this host of the run's list."""
    if entry == ALL:
        return True
    entry, host = entry.strip().lower(), host.lower()
    name, _, port = host.partition(":")
    wanted, _, wanted_port = entry.partition(":")
    if wanted_port and wanted_port != (port or wanted_port):
        return False
    return name.endswith(wanted[1:]) if wanted.startswith("*.") else name == wanted.rstrip(".")


def policy_object(hosts: Sequence[str]) -> JsonObject:
    return {
        "policy": {"allowlist": list(hosts), "denylist": None},
        "generation": 1,
        "applied_generation": 1,
        "applied": True,
    }


async def change(request: web.Request, held: Held, run_allows: Sequence[str]) -> tuple[str, ...]:
    """Replace a sandbox's host list with the requested one and return it. Raises Refusal."""
    policy = await read_json(request, Policy)
    if (policy.allowlist is None) == (policy.denylist is None):
        raise Refusal(422, "give either an allowlist or a denylist")
    allow = [ALL] if policy.allowlist is None else policy.allowlist
    hosts = permitted(run_allows, allow=allow, deny=policy.denylist or [])
    now = run_allows if held.wish.allow_hosts is None else held.wish.allow_hosts
    if set(hosts) != set(now):
        await held.restrict(hosts)
    return hosts
