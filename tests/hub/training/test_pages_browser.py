"""What only a browser shows of training: charts that follow a run, the cursor and the tokens by keyboard, widths."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from django.test import Client
from playwright.sync_api import expect
from pytest_django.live_server_helper import LiveServer

from hub.training.models import TrainingRun
from hub.training.services import report_step
from tests.factories.accounts import make_user
from tests.factories.training_showcase import TrainingShowcase, long_report, make_training_showcase, run_of
from tests.hub.training.addresses import NAMES, address
from tests.hub.web.browser import Look, LookAt, by_turns

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def seeded(live_server: LiveServer) -> TrainingShowcase:
    return make_training_showcase(make_user("ada"), steps=30, of=40)


@pytest.fixture
def session(seeded: TrainingShowcase) -> str:
    client = Client()
    client.force_login(seeded.user)
    return client.cookies["sessionid"].value


@pytest.fixture
def look(live_server: LiveServer, session: str, look_at: LookAt) -> Iterator[Look]:
    with look_at(live_server.url, session=session) as found:
        yield found


def test_the_lineage_opens_within_the_page_of_a_model(look: Look, seeded: TrainingShowcase) -> None:
    look.open(address(seeded, "adapter"))
    look.page.locator("#lineage summary").click()
    expect(look.page.get_by_role("region", name="Lineage: Training")).to_be_visible()
    assert look.barriers() == []
    assert look.complaints == []


def test_charts_follow_the_run_keep_the_cursor_and_stop_with_it(look: Look, seeded: TrainingShowcase) -> None:
    look.open(address(seeded, "charts"))
    chart = look.page.locator("#chart-reward")
    chart.focus()
    look.page.keyboard.press("End")
    look.page.keyboard.press("ArrowLeft")
    expect(look.page.locator("[data-at]")).to_have_text("Step 29.")
    run = run_of(seeded.running)
    report_step(training=seeded.running, report=long_report(step=31, tokens=10), guard=lambda: run)
    expect(look.page.locator(".live")).to_contain_text("step 31 of 40", timeout=15_000)
    expect(look.page.locator("[data-at]")).to_have_text("Step 29.")
    expect(chart).to_be_focused()
    look.page.keyboard.press("End")
    expect(look.page.locator("[data-at]")).to_have_text("Step 31.")
    TrainingRun.objects.filter(pk=seeded.running.pk).update(state="succeeded")
    expect(look.page.locator("#live .badge").first).to_have_text("succeeded", timeout=15_000)
    assert look.page.locator("#live").get_attribute("hx-trigger") is None
    look.page.locator("#chart-reward").focus()
    look.page.keyboard.press("Enter")
    expect(look.page).to_have_url(f"{look.base_url}/training/{seeded.running.pk}/rollouts?step=31")
    assert look.complaints == []


def _drag(look: Look, chart: str, first: float, last: float) -> None:
    svg = look.page.locator(f"{chart} svg")
    svg.scroll_into_view_if_needed()
    box = svg.bounding_box()
    assert box
    middle = box["y"] + box["height"] / 2
    look.page.mouse.move(box["x"] + first * box["width"], middle)
    look.page.mouse.down()
    look.page.mouse.move(box["x"] + last * box["width"], middle, steps=4)
    look.page.mouse.up()


@pytest.mark.parametrize("name", ["charts", "shared"])
def test_charts_are_zoomed_by_dragging_and_by_keyboard(look: Look, seeded: TrainingShowcase, name: str) -> None:
    look.open(address(seeded, name))
    chart = look.page.locator("#chart-kl")
    chart.focus()
    look.page.keyboard.press("-")  # all steps are shown
    _drag(look, "#chart-kl", 1 / 3, 2 / 3)
    expect(look.page).to_have_url(re.compile(r"\?from=10&to=20$"))
    expect(chart).to_have_attribute("data-steps", "|".join(map(str, range(10, 21))))
    assert look.page.evaluate("scrollY") > 0, "the charts stay where they were"
    look.page.reload()
    expect(chart).to_have_attribute("data-first", "10")
    chart.focus()
    look.page.keyboard.press("+")
    expect(look.page).to_have_url(re.compile(r"\?from=13&to=18$"))
    expect(chart).to_be_focused()
    look.page.keyboard.press("-")
    expect(look.page).to_have_url(re.compile(r"\?from=11&to=21$"))
    if name == "charts":
        for _ in range(2):
            shown = look.page.url
            look.page.keyboard.press("-")
            expect(look.page).not_to_have_url(shown)
    else:
        look.page.keyboard.press("Escape")
    expect(chart).to_have_attribute("data-last", "30")
    assert look.page.url == look.base_url + address(seeded, name)
    _drag(look, "#chart-rewards", 0.5, 0.9)
    expect(chart).not_to_have_attribute("data-last", "30")
    look.page.locator("#chart-kl svg").dblclick()
    expect(chart).to_have_attribute("data-last", "30")
    look.page.go_back()
    expect(chart).not_to_have_attribute("data-last", "30")
    assert look.complaints == []


def test_overlaid_charts_are_zoomed_on_their_axis(look: Look, seeded: TrainingShowcase) -> None:
    look.open(address(seeded, "compare-time"))
    last = int(look.page.locator("#chart-reward").get_attribute("data-last") or 0)
    _drag(look, "#chart-reward", 0.25, 0.75)
    expect(look.page.get_by_label("X axis from")).to_have_value(str(round(last / 4)))
    expect(look.page).to_have_url(re.compile(rf"smooth=0.6&scale=log&from={round(last / 4)}&to={round(3 * last / 4)}$"))
    expect(look.page.locator("#chart-reward")).not_to_have_attribute("data-last", str(last))
    look.page.get_by_label("X axis", exact=True).select_option("step")
    expect(look.page.locator("#chart-reward")).to_have_attribute("data-last", "40")
    assert look.complaints == []


def test_who_moves_by_keyboard_keeps_the_place_while_the_run_goes_on(look: Look, seeded: TrainingShowcase) -> None:
    look.open(address(seeded, "charts"))
    run = run_of(seeded.running)
    for step, where in enumerate(("nav.tabs a >> nth=1", ".flow a >> nth=2", "nav[aria-label=Range] a >> nth=1"), 31):
        link = look.page.locator(where)
        link.focus()
        report_step(training=seeded.running, report=long_report(step=step, tokens=10), guard=lambda: run)
        expect(look.page.locator(".live")).to_contain_text(f"step {step} of 40", timeout=15_000)
        expect(link).to_be_focused()
    assert look.complaints == []


def test_tokens_are_coloured_as_chosen_and_read_out_by_keyboard(look: Look, seeded: TrainingShowcase) -> None:
    look.open(address(seeded, "tokens"))
    first = look.page.locator("[data-tokens] > span").first
    shade = "element => getComputedStyle(element).backgroundColor"
    by_advantage = first.evaluate(shade)
    look.page.locator("#by-mask").check()
    assert first.evaluate(shade) != by_advantage
    assert look.page.url.endswith("&colour=mask")
    look.page.locator("[data-tokens]").first.focus()
    look.page.keyboard.press("ArrowRight")
    look.page.keyboard.press("ArrowRight")
    second = look.page.locator("[data-tokens] > span").nth(1)
    expect(look.page.locator("[data-said]")).to_have_text(second.get_attribute("title") or "")
    look.page.reload()
    expect(look.page.locator("#by-mask")).to_be_checked()
    look.page.keyboard.press("m")
    expect(look.page.locator("#note")).to_be_focused()
    assert look.complaints == []


def test_the_reader_has_its_keys_in_the_transcript_and_beside_the_tokens(look: Look, seeded: TrainingShowcase) -> None:
    step, index = seeded.rollout
    look.open(address(seeded, "rollout") + "?environment=guess-number")
    look.page.keyboard.press("j")
    look.page.keyboard.press("j")
    expect(look.page.locator("#t1")).to_be_focused()
    look.page.keyboard.press("?")
    expect(look.page.locator("#keys")).to_be_visible()
    look.page.keyboard.press("Escape")
    look.page.keyboard.press("Shift+J")
    expect(look.page).to_have_url(re.compile(rf"/rollouts/{step}/{index + 1}\?environment=guess-number"))
    look.page.get_by_role("link", name="Tokens", exact=True).click()
    expect(look.page.locator("[data-tokens]").first).to_be_visible()
    look.page.keyboard.press("Shift+K")
    expect(look.page).to_have_url(re.compile(rf"/rollouts/{step}/{index}\?environment=guess-number&show=tokens"))
    assert look.complaints == []


def test_ratios_have_their_bounds_and_tokens_without_one_are_hatched(look: Look, seeded: TrainingShowcase) -> None:
    image = "element => getComputedStyle(element).backgroundImage"
    look.open(address(seeded, "tokens") + "&colour=ratio")
    expect(look.page.locator("#by-ratio")).to_be_checked()
    expect(look.page.locator(".legend--ratio")).to_contain_text("dppo_kl cuts off")
    expect(look.page.locator(".passage__head").nth(1)).to_contain_text("reward +0.500")
    assert look.page.locator(".tokens .rx").count() == 0
    assert look.page.locator("[data-tokens] > span").first.evaluate(image) == "none"
    look.open(address(seeded, "unused-rollout") + "&colour=ratio")
    token = look.page.locator(".tokens .rx").first
    assert "gradient" in token.evaluate(image)
    assert "not trained (zero signal)" in (token.get_attribute("title") or "")
    assert look.complaints == []


def test_steps_and_filters_change_the_table_in_place(look: Look, seeded: TrainingShowcase) -> None:
    look.open(address(seeded, "rollouts"))
    look.page.get_by_role("link", name="← 29").click()
    expect(look.page.locator("#results h3").first).to_contain_text("Step 29")
    look.page.select_option("#used", "no")
    expect(look.page.locator("#results tbody tr")).to_have_count(9)
    expect(look.page.locator("#results h3").first).to_contain_text("Step 29")
    assert look.complaints == []


@by_turns
def test_no_page_overflows_complains_or_is_hard_to_read(
    live_server: LiveServer,
    session: str,
    seeded: TrainingShowcase,
    width: int,
    scheme: str,
    first: int,
    look_at: LookAt,
) -> None:
    with look_at(live_server.url, session=session, width=width, scheme=scheme) as look:
        for name in NAMES[first::2]:
            look.open(address(seeded, name))
            assert (name, look.overflow()) == (name, 0)
            assert (name, look.barriers()) == (name, [])
            assert (name, look.complaints) == (name, [])


def test_typing_on_one_side_of_the_form_changes_the_other(look: Look, seeded: TrainingShowcase) -> None:
    look.open(address(seeded, "new"))
    steps, toml = look.page.get_by_label("Steps", exact=True), look.page.get_by_label("Configuration")
    steps.fill("7")
    expect(toml).to_have_value(re.compile("^max_steps = 7$", re.MULTILINE))
    toml.fill(toml.input_value().replace("max_steps = 7", "max_steps = 9"))
    expect(steps).to_have_value("9")
    expect(toml).to_be_focused()
    expect(look.page.locator("#live")).to_contain_text("a CPU is enough")
    toml.fill("max_steps =")
    expect(look.page.locator("#live")).to_contain_text("Not a TOML file")
    assert look.complaints == []
