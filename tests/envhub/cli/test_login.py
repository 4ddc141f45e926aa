from __future__ import annotations

import stat

import pytest
from django.utils import timezone
from envhub.client import HubClient
from envhub.errors import NotAllowed, NotAuthenticated

from hub.accounts.services.devices import TOKEN_DAYS, decide_device
from hub.accounts.services.tokens import create_token
from tests.envhub.cli.conftest import URL, Cli
from tests.factories.accounts import make_token, make_user


def test_whoami_names_the_user(cli: Cli) -> None:
    assert cli.json("whoami")["user"] == "alice"


def test_a_wrong_token_is_an_error_with_a_hint(cli: Cli) -> None:
    cli.environ["HUB_TOKEN"] = "hub_wrong"
    result = cli("whoami", code=1)
    assert "hub login" in result.stderr
    assert result.stdout == ""


def test_errors_are_json_under_json(cli: Cli) -> None:
    cli.environ["HUB_TOKEN"] = "hub_wrong"
    assert '"code": "not_authenticated"' in cli("whoami", "--json", code=1).stderr


def test_login_with_a_token_is_kept_for_its_user_alone(cli: Cli) -> None:
    token = make_token(cli.user)
    cli.environ.clear()
    cli("login", "http://127.0.0.1:8000", "--token", "-", stdin=f"{token}\n")
    assert stat.S_IMODE(cli.config_file.stat().st_mode) == 0o600
    assert cli.json("whoami")["user"] == "alice"
    assert cli.json("config")["token_from"] == str(cli.config_file)
    cli("logout")
    assert "hub login" in cli("whoami", code=1).stderr


def test_a_bad_login_is_not_stored(cli: Cli) -> None:
    cli("login", "http://127.0.0.1:8000", "--token", "hub_wrong", code=1)
    assert not cli.config_file.exists()


@pytest.mark.parametrize("by", ["argument", "HUB_URL"])
def test_a_broken_file_is_replaced_by_a_login(cli: Cli, by: str) -> None:
    token = make_token(cli.user)
    cli.environ.clear()
    cli.config_file.write_text("url = ")
    refused = cli("login", "--token", token, code=2).stderr
    assert "is broken" in refused
    assert "hub login URL" in refused
    cli.environ |= {"HUB_URL": URL} if by == "HUB_URL" else {}
    cli("login", *([URL] if by == "argument" else []), "--token", token)
    assert cli.json("whoami")["user"] == "alice"


def test_a_broken_file_is_removed_by_a_logout(cli: Cli) -> None:
    cli.config_file.write_text("url = ")
    cli("logout")
    assert not cli.config_file.exists()


def test_a_broken_file_does_not_matter_beside_an_address_and_a_token(cli: Cli) -> None:
    cli.config_file.write_text("url = ")
    result = cli("whoami")
    assert "alice" in result.stdout
    assert "is broken" in result.stderr
    del cli.environ["HUB_TOKEN"]
    cli("whoami", code=2)


@pytest.mark.parametrize("url", ["http://hub:port", "http://hub:99999", "http://", "hub.test"])
def test_an_address_that_is_none_is_named(cli: Cli, url: str) -> None:
    cli.environ["HUB_URL"] = url
    assert f"{url!r} is not the address of a hub" in cli("whoami", code=2).stderr


@pytest.mark.parametrize("token", ["-", ""])
def test_an_empty_token_does_not_wait_for_a_browser(cli: Cli, monkeypatch: pytest.MonkeyPatch, token: str) -> None:
    monkeypatch.setattr("envhub.cli.login._device_login", lambda *_, **__: pytest.fail("a script would wait here"))
    result = cli("login", "http://127.0.0.1:8000", "--token", token, stdin="\n", code=2)
    assert "the token is empty" in result.stderr


def test_a_stored_token_is_not_sent_to_another_hub(cli: Cli) -> None:
    token = make_token(cli.user)
    cli.environ.clear()
    cli("login", "http://127.0.0.1:8000", "--token", token)
    cli.environ["HUB_URL"] = "http://localhost:8000"
    assert cli.json("config")["token_from"] == "nowhere"


def test_device_codes_are_polled_until_they_expire(client: HubClient) -> None:
    code = client.accounts.start_device_login()
    clock = iter([0.0, 0.0, 10.0, 1e9])
    waits: list[float] = []
    with pytest.raises(NotAuthenticated, match="expired"):
        client.accounts.wait_for_device(code, sleep=waits.append, clock=lambda: next(clock))
    assert waits[0] == code.interval


def test_a_refused_device_login_says_so(client: HubClient) -> None:
    code = client.accounts.start_device_login()
    decide_device(user=make_user("bob"), user_code=code.user_code, approve=False, now=timezone.now())
    with pytest.raises(NotAllowed, match="denied"):
        client.accounts.wait_for_device(code, sleep=lambda _: None)


def test_tokens_are_made_listed_and_revoked(cli: Cli) -> None:
    made = cli.json("token", "create", "ci", "--scope", "read")
    assert made["token"].startswith("hub_")
    (listed,) = [item for item in cli.json("token", "list") if item["name"] == "ci"]
    cli("token", "revoke", listed["id"])
    cli.environ["HUB_TOKEN"] = made["token"]
    cli("whoami", code=1)


def test_a_login_of_yesterday_makes_a_token(cli: Cli) -> None:
    cli.environ["HUB_TOKEN"] = create_token(user=cli.user, name="login", expires_in_days=TOKEN_DAYS - 1)[0]
    assert cli("token", "create", "ci").stdout.startswith("hub_")
