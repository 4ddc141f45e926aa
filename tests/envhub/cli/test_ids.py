"""Ids as people give them."""

from __future__ import annotations

from types import SimpleNamespace
from uuid import UUID

import pytest
from envhub.cli.terminal.ids import id_of
from envhub.errors import UsageError

from hub.evals.models import Evaluation
from tests.envhub.cli.conftest import Cli
from tests.factories.evals import create_hosted

ID = "01a1ffe9-890d-7592-a1ad-ec58be13e981"


def read(text: str) -> str:
    return id_of("an evaluation", "hub eval list")(SimpleNamespace(resilient_parsing=False), text)


@pytest.mark.parametrize(
    "text",
    [ID, ID.upper(), f"https://hub.example/evaluations/{ID}", f"/evaluations/{ID}?sort=reward", f"/compare?a={ID}"],
)
def test_an_id_or_the_address_of_its_page(text: str) -> None:
    assert read(text) == ID


@pytest.mark.parametrize("text", [ID[:8], ID[:13], f"https://hub.example/evaluations/{ID[:13]}"])
def test_what_an_id_begins_with_goes_to_the_hub(text: str) -> None:
    assert read(text) == text.rpartition("/")[2]


@pytest.mark.parametrize("text", ["", ID[:7], "deadbeefs", "latest", "owner/name", f"{ID}x", f"/compare?a={ID}&b={ID}"])
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


def test_the_first_characters_of_an_id_do_for_a_whole_command(cli: Cli) -> None:
    made = create_hosted(cli.user)
    beginning = str(made.pk)[:16]
    assert cli.json("eval", "show", beginning)["id"] == str(made.pk)
    assert cli.json("run", "show", str(made.run_id)[:20])["id"] == str(made.run_id)
    assert cli("eval", "set", beginning, "--visibility", "public").stdout == f"{made.pk}: public\n"


def test_an_ambiguous_beginning_lists_what_it_may_mean(cli: Cli) -> None:
    made = create_hosted(cli.user)
    twin = Evaluation.objects.get(pk=made.pk)
    twin.pk, twin.run = UUID(int=made.pk.int ^ 1), None
    twin.save(force_insert=True)
    told = cli("eval", "show", str(made.pk)[:13], code=1).stderr
    assert f"2 ids begin with {str(made.pk)[:13].replace('-', '')}" in told
    assert f"{twin.pk}: {twin.model_name} on alice/tiny-env" in told
    assert "use more characters of the id" in told
