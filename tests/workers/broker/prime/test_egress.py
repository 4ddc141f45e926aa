"""Which hosts are left of a run's list."""

from __future__ import annotations

import pytest

from tests.workers.broker.prime.service import Client
from workers.broker.prime.egress import permitted
from workers.broker.refusals import Refusal

RUN = ("packages.example.org", "a.example.org:443", "b.example.org:80")


@pytest.mark.parametrize(
    ("allow", "deny", "left"),
    [
        (["*"], [], RUN),
        ([], [], ()),
        (["A.example.org"], [], ("a.example.org:443",)),
        (["a.example.org:443", "packages.example.org:80"], [], RUN[:2]),
        (["*.example.org"], ["b.example.org"], RUN[:2]),
        (["*"], ["*"], ()),
        (["127.0.0.1", "localhost:8000"], [], ()),
    ],
)
def test_a_list_chooses_from_what_the_run_allows(allow: list[str], deny: list[str], left: tuple[str, ...]) -> None:
    assert permitted(RUN, allow=allow, deny=deny) == left


@pytest.mark.parametrize("host", ["c.example.org", "a.example.org:80", "example.org", "10.0.0.0/8", "*.org.example"])
def test_a_host_that_the_run_lacks_is_refused_by_name(host: str) -> None:
    with pytest.raises(Refusal, match="does not let sandboxes reach"):
        permitted(RUN, allow=[host], deny=[])


async def test_a_policy_is_applied_to_a_sandbox_that_runs(client: Client) -> None:
    held = await client.create()
    path = f"/api/v1/sandbox/{held.id}/egress-policy"
    status, told = await client.call("PUT", path, json={"allowlist": None, "denylist": []})
    assert (status, told["applied"], told["policy"]["allowlist"]) == (
        200,
        True,
        ["example.org:443", "packages.example.org"],
    )
    assert (await client.call("GET", path))[1] == told
    status, told = await client.call("PUT", path, json={"allowlist": [], "denylist": None})
    assert (status, told["policy"]["allowlist"]) == (200, [])
    assert (await client.call("GET", path))[1] == told
