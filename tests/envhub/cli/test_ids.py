"""Ids as people give them."""

from __future__ import annotations

import pytest
from envhub.cli.ids import id_of
from envhub.errors import UsageError

from tests.envhub.cli.conftest import Cli

ID = "01a1ffe9-890d-7592-a1ad-ec58be13e981"
read = id_of("an evaluation", "hub eval list")


@pytest.mark.parametrize(
    "text", [ID, ID.upper(), f"https://hub.example/evaluations/{ID}", f"/evaluations/{ID}?sort=reward"]
)
def test_an_id_or_the_address_of_its_page(text: str) -> None:
    assert read(text) == ID


@pytest.mark.parametrize("text", ["", "latest", "owner/name", f"{ID}x", f"/compare?a={ID}&b={ID}"])
def test_anything_else_is_refused_with_where_ids_are(text: str) -> None:
    with pytest.raises(UsageError) as raised:
        read(text)
    assert "hub eval list" in raised.value.hint


@pytest.mark.parametrize(
    ("command", "listing"),
    [
        (("eval", "show"), "hub eval list"),
        (("eval", "cancel"), "hub eval list"),
        (("eval", "pull"), "hub eval list"),
        (("eval", "export"), "hub eval list"),
        *(
            (("train", command), "hub train list")
            for command in ("show", "logs", "metrics", "rollouts", "checkpoints", "stop", "resume", "export", "delete")
        ),
        (("worker", "revoke"), "hub worker list"),
        (("run", "logs"), "hub run list"),
        (("token", "revoke"), "hub token list"),
    ],
)
def test_commands_say_where_ids_are(cli: Cli, command: tuple[str, str], listing: str) -> None:
    assert listing in cli(*command, "latest", code=2).stderr
