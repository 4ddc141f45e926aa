"""HUB_DATABASE_URL may name several servers, of which the hub uses the one that takes writes."""

from __future__ import annotations

from hub.config.database import parse, urls_of

SEVERAL = "postgresql://hub:se,cret@db1.lan,[fd00::2]:5433/hub"


def test_several_hosts_are_tried_for_the_one_that_takes_writes() -> None:
    found = parse(SEVERAL)
    assert (found["HOST"], found["PORT"], found["NAME"]) == ("db1.lan,fd00::2", "5432,5433", "hub")
    assert (found["USER"], found["PASSWORD"]) == ("hub", "se,cret")
    assert found["OPTIONS"]["target_session_attrs"] == "read-write"


def test_what_the_url_says_itself_goes_first() -> None:
    options = parse(f"{SEVERAL}?connect_timeout=9&target_session_attrs=any")["OPTIONS"]
    assert (options["connect_timeout"], options["target_session_attrs"]) == (9, "any")


def test_one_server_is_used_whatever_it_is() -> None:
    options = parse("postgresql://hub@db.lan/hub")["OPTIONS"]
    assert "target_session_attrs" not in options
    assert options["tcp_user_timeout"] == 20_000


def test_each_server_is_the_hubs_own() -> None:
    assert urls_of(SEVERAL) == ["postgresql://db1.lan/hub", "postgresql://[fd00::2]:5433/hub"]


def test_sqlite_gets_none_of_it() -> None:
    assert parse("sqlite:////data/hub.sqlite3").get("OPTIONS", {}) == {}
