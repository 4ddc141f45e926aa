"""What only a browser shows: htmx, the theme, the CSP at work, widths."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from django.test import Client
from envhub.protocol.evals.rollouts import Turn
from playwright.sync_api import expect
from pytest_django.live_server_helper import LiveServer

from hub.data.models import Snapshot
from hub.evals.models import Evaluation
from hub.runs.queries import log_end
from hub.runs.services.logs import append_log
from hub.storage.services import store_bytes
from tests.factories.accounts import make_token, make_user
from tests.factories.evals import make_record, make_records, store
from tests.factories.runs import make_run, make_worker
from tests.factories.sandboxes import create_running
from tests.hub.web.addresses import NAMES, address
from tests.hub.web.browser import Look, LookAt, by_turns
from tests.hub.web.showcase import Showcase, make_showcase

PATIENCE_MS = 20_000  # Swagger UI reads the whole schema first
ADMINISTRATION = tuple(f"/administration/{page}" for page in ("queue", "sandboxes", "storage", "quotas", "data"))

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


PASSWORD = "a long and safe one"


@pytest.fixture
def seeded(live_server: LiveServer) -> Showcase:
    return make_showcase(examples=6)


@pytest.fixture
def session(seeded: Showcase) -> str:
    client = Client()
    client.force_login(seeded.user)
    return client.cookies["sessionid"].value


@pytest.fixture
def look(live_server: LiveServer, session: str, look_at: LookAt) -> Iterator[Look]:
    with look_at(live_server.url, session=session) as found:
        yield found


def test_search_narrows_while_typing_and_the_address_follows(look: Look) -> None:
    look.open("/environments")
    items = look.page.locator("#results .item")
    expect(items).to_have_count(5)
    look.page.locator("#search").press_sequentially("calcu", delay=30)
    expect(items).to_have_count(1)
    expect(look.page).to_have_url(f"{look.base_url}/environments?search=calcu")
    expect(look.page.locator("#search")).to_be_focused()
    look.page.reload()
    expect(items).to_have_count(1)
    expect(look.page.locator("#search")).to_have_value("calcu")
    assert look.complaints == []


def test_a_running_evaluation_updates_itself_and_stops_when_it_has_ended(look: Look, seeded: Showcase) -> None:
    running = seeded.running
    look.open(f"/evaluations/{running.pk}")
    expect(look.page.locator(".live")).to_contain_text("36 of 100 rollouts stored")
    polls: list[str] = []
    look.page.on("request", lambda request: polls.append(request.url) if "stored=" in request.url else None)
    store(running, [record.model_copy(update={"example": 20}) for record in make_records([1.0])])
    expect(look.page.locator(".live")).to_contain_text("37 of 100 rollouts stored")
    expect(look.page.locator("#results tbody tr").first).to_contain_text("20 · 0")
    Evaluation.objects.filter(pk=running.pk).update(state="succeeded")
    expect(look.page.locator("#live .badge").first).to_have_text("succeeded")
    polls.clear()
    look.page.wait_for_timeout(2500)
    assert polls == []
    assert look.complaints == []


def test_a_log_is_followed(look: Look, seeded: Showcase) -> None:
    look.open(f"/runs/{seeded.run.pk}")
    expect(look.page.locator("pre.log")).to_contain_text("resolve: 61 wheels")
    seeded.run.refresh_from_db()
    from_now_on = "and then the last line"
    append_log(run=seeded.run, offset=log_end(seeded.run.pk, seeded.run.attempt), text=from_now_on)
    expect(look.page.locator("pre.log")).to_contain_text(from_now_on)
    assert look.page.locator("pre.log").inner_text().count(from_now_on) == 1
    assert look.complaints == []


def test_filters_change_the_table_in_place(look: Look, seeded: Showcase) -> None:
    look.open(f"/evaluations/{seeded.ended.pk}")
    look.page.select_option("#outcome", "failed")
    expect(look.page.locator("#results tbody tr").first).to_contain_text("no answer within 60 s")
    expect(look.page).to_have_url(f"{look.base_url}/evaluations/{seeded.ended.pk}?outcome=failed&sort=newest")
    look.page.go_back()
    expect(look.page.locator("#outcome")).to_have_value("")
    assert look.complaints == []


def test_the_theme_is_switched_and_remembered(look: Look) -> None:
    look.open("/environments")
    background = "getComputedStyle(document.body).backgroundColor"
    light = look.page.evaluate(background)
    look.page.click("[data-theme-toggle]")
    dark = look.page.evaluate(background)
    assert dark != light
    look.page.reload()
    assert look.page.evaluate(background) == dark


def test_a_compact_page_has_more_rows_and_stays_so(look: Look) -> None:
    height = "document.querySelector('#results .item').offsetHeight"
    look.open("/environments")
    before = look.page.evaluate(height)
    look.page.get_by_role("button", name="Compact").click()
    assert look.page.evaluate(height) < before
    look.page.reload()
    assert look.page.evaluate(height) < before
    expect(look.page.get_by_role("button", name="Compact")).to_have_attribute("aria-pressed", "true")
    look.page.get_by_role("button", name="Compact").click()
    assert look.page.evaluate(height) == before


@pytest.mark.parametrize(("scheme", "width"), [("light", 360), pytest.param("dark", 1280, marks=pytest.mark.matrix)])
def test_the_page_of_the_api_is_read_like_any_other(
    live_server: LiveServer, session: str, scheme: str, width: int, look_at: LookAt
) -> None:
    background = "getComputedStyle(document.documentElement).backgroundColor"
    with look_at(live_server.url, session=session, scheme=scheme, width=width) as look:
        look.open("/api/v1/docs")
        look.page.locator("#operations-tag-secrets").click(timeout=PATIENCE_MS)
        look.page.locator("#operations-secrets-secret_detail_put .opblock-summary-control").click()
        look.page.get_by_role("button", name="Try it out").click()
        expect(look.page.get_by_label("Body")).to_be_visible()
        assert look.page.url.endswith("#/secrets/secret_detail_put")
        first = look.page.evaluate(background)
        assert (first == "rgb(28, 32, 34)") is (scheme == "dark")
        assert (look.overflow(), look.barriers(), look.complaints) == (0, [], [])
        look.page.get_by_placeholder("owner").fill("ada")
        look.page.get_by_placeholder("name").fill("FROM_THE_PAGE")
        look.page.get_by_label("Body").fill('{"value": "x"}')
        with look.page.expect_response("**/secrets/ada/FROM_THE_PAGE") as sent:
            look.page.get_by_role("button", name="Execute").click()
        assert sent.value.status == 201
        look.page.locator("#operations-tag-environments").click()
        look.page.locator("#operations-environments-environment_list .opblock-summary-control").click()
        expect(look.page.get_by_role("combobox", name="sort", exact=True)).to_be_disabled()
        assert look.barriers() == []
        look.open("/")
        look.page.click("[data-theme-toggle]")
        look.open("/api/v1/docs")
        assert look.page.evaluate(background) != first


def test_what_scrolls_is_reached_by_keyboard_and_nothing_else_is_a_stop(look: Look, seeded: Showcase) -> None:
    look.page.set_viewport_size({"width": 1280, "height": 900})
    look.open(f"/evaluations/{seeded.ended.pk}")
    box = look.page.locator("#results .table-wrap")
    expect(box).not_to_have_attribute("tabindex", "0")
    look.page.evaluate("document.querySelector('#results td').textContent = 'x'.repeat(400)")
    look.page.set_viewport_size({"width": 400, "height": 900})
    expect(box).to_have_attribute("tabindex", "0")
    expect(box).to_have_attribute("role", "group")
    expect(box).to_have_attribute("aria-label", re.compile("table$"))
    assert look.barriers() == []
    look.page.evaluate("document.querySelector('#results td').textContent = 'x'")
    look.page.set_viewport_size({"width": 1280, "height": 900})
    expect(box).not_to_have_attribute("tabindex", "0")
    assert look.complaints == []


def test_a_copy_button_is_as_high_as_a_line(look: Look) -> None:
    look.open("/training/new?environment=ada/calculator-tool&model=ada/stub")
    box = look.page.locator("[data-copy]").first.bounding_box()
    assert box is not None
    assert box["height"] < 40


def test_the_keyboard_alone_skips_filters_and_confirms(look: Look, seeded: Showcase) -> None:
    look.open(f"/evaluations/{seeded.ended.pk}")
    look.page.keyboard.press("Tab")
    skip = look.page.locator(".skip")
    expect(skip).to_be_focused()
    expect(skip).to_be_in_viewport()
    look.page.keyboard.press("Enter")
    look.page.keyboard.press("Tab")
    expect(look.page.locator("main a").first).to_be_focused()
    look.page.locator("#outcome").focus()
    look.page.keyboard.type("failed")
    expect(look.page.locator("#results tbody tr").first).to_contain_text("no answer within 60 s")
    look.open("/settings/secrets")
    look.page.locator(".confirm > summary").focus()
    look.page.keyboard.press("Enter")
    expect(look.page.get_by_role("button", name="Confirm deletion")).to_be_visible()
    look.open("/")
    look.page.locator("main .menu > summary").focus()
    look.page.keyboard.press("Enter")
    expect(look.page.get_by_role("link", name="Training run")).to_be_visible()
    look.page.keyboard.press("Escape")
    expect(look.page.get_by_role("link", name="Training run")).to_be_hidden()
    expect(look.page.locator("main .menu > summary")).to_be_focused()


def test_enter_in_the_search_box_is_about_what_was_typed(look: Look, seeded: Showcase) -> None:
    look.open("/")
    look.page.keyboard.press("Control+k")
    expect(look.page.locator("#palette a").first).to_have_text("Environments")
    look.page.keyboard.type("calculator-tool")
    look.page.keyboard.press("Enter")  # before its results are there, or after
    look.page.wait_for_url(re.compile(r"/search\?q=calculator-tool|/environments/ada/calculator-tool"))


def test_a_device_signs_in_by_the_code_that_the_browser_approves(
    live_server: LiveServer, look: Look, seeded: Showcase, tmp_path: Path
) -> None:
    """By somebody who has just signed in."""
    seeded.user.set_password(PASSWORD)  # which ends the session that there was
    seeded.user.save()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HUB_")}
    environ = kept | {"XDG_CONFIG_HOME": str(tmp_path), "PYTHONUNBUFFERED": "1"}
    hub = str(Path(sys.executable).with_name("hub"))
    command = [hub, "login", live_server.url, "--no-browser"]
    with subprocess.Popen(command, env=environ, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as device:
        try:
            assert device.stderr is not None
            code = device.stderr.readline().split()[-1]
            look.open("/device")
            look.page.fill("#id_username", "ada")
            look.page.fill("#id_password", PASSWORD)
            look.page.keyboard.press("Enter")
            look.page.fill("#id_user_code", code.lower().replace("-", " "))
            look.page.keyboard.press("Enter")
            expect(look.page.locator(".code")).to_have_text(code)
            look.page.get_by_role("button", name="Approve").click()
            expect(look.page.get_by_role("status")).to_contain_text("Approved")
            said, _ = device.communicate(timeout=60)
        finally:
            device.kill()
    assert (device.returncode, said.strip()) == (0, f"logged in to {live_server.url} as ada")
    who = subprocess.run([hub, "whoami"], env=environ, capture_output=True, text=True, check=True, timeout=60)
    assert "ada" in who.stdout


@by_turns
def test_no_page_overflows_complains_or_is_hard_to_read(
    live_server: LiveServer, session: str, seeded: Showcase, width: int, scheme: str, first: int, look_at: LookAt
) -> None:
    make_token(seeded.user)
    with look_at(live_server.url, session=session, width=width, scheme=scheme) as look:
        for name in NAMES[first::2]:
            look.open(address(seeded, name))
            assert (name, look.overflow()) == (name, 0)
            assert (name, look.barriers()) == (name, [])
            assert (name, look.complaints) == (name, [])


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), pytest.param(768, "dark", marks=pytest.mark.matrix)])
def test_the_pages_of_an_administrator_fit_too_and_show_which_is_open(
    live_server: LiveServer, width: int, scheme: str, look_at: LookAt
) -> None:
    client, worker = Client(), make_worker()
    worker.facts = {
        "cpus": 2,
        "memory_mb": 24105,
        "platform": "Linux-6.18.44-x86_64-with-glibc2.36",
        "engines": ["torch"],
    }
    worker.save()
    user = make_user("a-name-of-a-common-length", is_superuser=True)
    client.force_login(user)
    make_run(owner=user.owner, subject="a-name-of-a-common-length/an-environment-with-a-name")
    create_running(user, name="a-sandbox-with-a-name")
    store_bytes(b"x", holder=user.owner.pk)
    Snapshot.objects.create(kind="dataset", repository="an-owner/of-a-data-set", revision="0" * 40, pinned=True)
    with look_at(live_server.url, session=client.cookies["sessionid"].value, width=width, scheme=scheme) as look:
        for path in ("/settings/users", "/settings/workers", *ADMINISTRATION):
            look.open(path)
            assert (path, look.overflow(), look.barriers()) == (path, 0, [])
            expect(look.page.locator(".tabs [aria-current]")).to_be_in_viewport(ratio=0.9)
            assert look.complaints == []


def test_a_long_rollout_is_read_to_its_end_by_wheel_keys_and_address(look: Look, seeded: Showcase) -> None:
    said = [{"role": "assistant", "content": f"said {number}"} for number in range(400)]
    running = seeded.running
    store(running, [make_record(24, 3, completion=said)])
    where = f"/evaluations/{running.pk}/rollouts/24/3"
    look.open(where)
    turns = look.page.locator(".turn")
    shown = turns.count()
    turns.last.scroll_into_view_if_needed()
    expect(turns.nth(shown)).to_be_attached()
    look.page.keyboard.press("j")
    look.page.keyboard.press("j")
    assert int(look.page.evaluate("document.activeElement.id").removeprefix("t")) > 1
    look.page.keyboard.press("/")
    look.page.keyboard.type("said 398")
    look.page.keyboard.press("Enter")
    look.page.locator(".found a").click()
    expect(look.page.locator("#t399")).to_be_in_viewport()
    look.open(f"{where}#t200")
    expect(look.page.locator("#t200")).to_be_focused()
    assert look.complaints == []


def test_turns_before_and_calls_come_when_they_are_asked_for(look: Look, seeded: Showcase) -> None:
    said = [{"role": "assistant", "content": f"said {number}\n" * 9} for number in range(400)]
    turns = tuple(
        Turn(index=n, protocol="chat", model="m", request={"messages": [{"role": "user", "content": f"asked {n}"}]},
             response={}) for n in range(9)
    )  # fmt: skip
    store(seeded.running, [make_record(24, 3, completion=said, turns=turns)])
    where = f"/evaluations/{seeded.running.pk}/rollouts/24/3"
    look.open(f"{where}?at=200#t200")
    top = "document.getElementById('t200').getBoundingClientRect().top"
    look.page.locator(".more").first.scroll_into_view_if_needed()
    before = look.page.evaluate(top)
    look.page.get_by_role("link", name="earlier turns").click()
    expect(look.page.locator("#t190")).to_be_attached()
    look.page.wait_for_function(f"Math.abs({top} - {before}) < 60")  # the reader stays where they were
    assert "at=200" in look.page.url
    call = look.page.locator("#call-8")
    call.locator("summary").first.click()
    expect(call.get_by_text("Request")).to_be_visible()
    expect(call.locator("[hx-get]")).to_have_count(0)
    assert look.complaints == []


def test_times_are_the_readers_own(look: Look, seeded: Showcase) -> None:
    look.page.context.new_cdp_session(look.page).send("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Tokyo"})
    make_token(seeded.user)
    look.open("/settings/tokens")
    shown = look.page.locator("time[data-local=moment]").first
    at = datetime.fromisoformat(shown.get_attribute("datetime") or "")
    expect(shown).to_have_text(re.compile(f"^{at + timedelta(hours=9):%Y-%m-%d %H:%M} "))
    expect(shown).to_have_attribute("title", re.compile(f"GMT.9, {at:%Y-%m-%d %H:%M:%S} UTC"))


def test_the_menu_of_the_header_opens_by_keyboard_and_fits_a_phone(
    live_server: LiveServer, session: str, seeded: Showcase, look_at: LookAt
) -> None:
    with look_at(live_server.url, session=session, width=360, scheme="dark") as phone:
        phone.open("/environments")
        phone.page.locator(".menu--nav > summary").press("Enter")
        expect(phone.page.get_by_role("link", name="Data sets")).to_be_visible()
        assert phone.overflow() == 0
        phone.page.keyboard.press("Escape")
        expect(phone.page.get_by_role("link", name="Data sets")).to_be_hidden()
        phone.page.keyboard.press("Enter")
        phone.page.get_by_role("link", name="Runs", exact=True).click()
        phone.page.wait_for_url("**/runs")
        expect(phone.page.locator(".menu--nav > summary")).to_have_class("is-current")


def test_a_phone_says_which_of_two_transcripts_is_in_sight(
    live_server: LiveServer, session: str, seeded: Showcase, look_at: LookAt
) -> None:
    with look_at(live_server.url, session=session, width=360, scheme="dark") as phone:
        phone.open(address(seeded, "compare-example"))
        shown = phone.page.locator(".sides__jump [aria-current]")
        expect(shown).to_have_count(1)
        expect(shown).to_contain_text("A")
        phone.page.locator(".sides").evaluate("(sides) => { sides.scrollLeft = sides.scrollWidth; }")
        expect(shown).to_have_count(1)
        expect(shown).to_contain_text("B")
