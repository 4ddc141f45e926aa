"""Every page of training answers with few queries, to those who may see it; what models wrote stays text."""

from __future__ import annotations

import math
import re
from uuid import uuid4

import pytest
from django.test import Client
from django.utils import timezone
from envhub.protocol.runs import RunState
from envhub.protocol.training.metrics import EvaluationPoint, Histogram
from pytest_django import DjangoAssertNumQueries

from hub.accounts.models import User
from hub.catalog.models import Model
from hub.catalog.services import delete_model
from hub.registry.models import Environment
from hub.runs.services import end_attempt
from hub.runs.services.finishing import CANCELLED
from hub.training.models import Step, TrainingRun
from hub.training.queries import checkpoints_of
from hub.training.services import report_step
from tests.factories.accounts import make_owner
from tests.factories.training_runs import adapter_report, create_run, report, start, step_report
from tests.factories.training_showcase import TrainingShowcase, long_report, run_of
from tests.hub.training.addresses import NAMES, OPEN, PRIVATE, address

pytestmark = pytest.mark.django_db
MOST_QUERIES, MOST_QUERIES_OF_THE_FORM = 24, 29


@pytest.mark.parametrize("name", NAMES)
def test_a_page_answers_with_few_queries(
    showcase: TrainingShowcase, ada: Client, name: str, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_max_num_queries(MOST_QUERIES_OF_THE_FORM if name == "new" else MOST_QUERIES):
        reply = ada.get(address(showcase, name))
    assert reply.status_code == 200
    assert reply.content.decode().count("<h1") == 1


@pytest.mark.parametrize("name", NAMES)
def test_no_page_has_inline_scripts_or_styles(showcase: TrainingShowcase, ada: Client, name: str) -> None:
    html = ada.get(address(showcase, name)).content.decode()
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=\"|javascript:", html) == []


def test_ranges_of_the_charts_lead_to_the_run(showcase: TrainingShowcase, ada: Client) -> None:
    page = address(showcase, "charts")
    shown = re.findall(r'href="([^"]+)\?newest=', ada.get(page).content.decode())
    assert shown
    assert set(shown) == {page}


def test_charts_show_the_steps_in_their_address(showcase: TrainingShowcase, ada: Client) -> None:
    page = address(showcase, "charts")
    part = ada.get(f"{page}?from=10&to=20&newest=5")
    assert {chart.steps for chart in part.context["charts"]} == {"|".join(map(str, range(10, 21)))}
    assert "&amp;from=10&amp;to=20" in part.content.decode(), "the page that polls keeps them"
    assert "no steps in this range" in ada.get(f"{page}?from=5000").content.decode()
    assert ada.get(f"{page}?from=x").status_code == 422


@pytest.mark.parametrize("name", PRIVATE)
def test_a_private_run_is_no_run_for_others(showcase: TrainingShowcase, mallory: Client, name: str) -> None:
    path = address(showcase, name)
    assert [client.get(path).status_code for client in (mallory, Client())] == [404, 404]


@pytest.mark.parametrize("name", OPEN)
def test_lists_leave_out_what_is_private(showcase: TrainingShowcase, mallory: Client, name: str) -> None:
    html = mallory.get(address(showcase, name)).content.decode()
    assert str(showcase.running.pk) not in html


def test_a_public_run_shows_its_charts_to_everybody_but_not_its_log(showcase: TrainingShowcase) -> None:
    TrainingRun.objects.filter(pk=showcase.running.pk).update(visibility="public")
    charts = Client().get(address(showcase, "charts"))
    assert charts.status_code == 200
    assert "Stop" not in charts.content.decode()
    assert Client().get(address(showcase, "log")).status_code == 404


@pytest.mark.parametrize("action", ["stop", "resume"])
def test_only_members_change_a_run(showcase: TrainingShowcase, mallory: Client, action: str) -> None:
    path = f"/training/{showcase.running.pk}/{action}"
    assert mallory.post(path).status_code == 404
    TrainingRun.objects.filter(pk=showcase.running.pk).update(visibility="public")
    assert mallory.post(path).status_code == 403
    assert Client().post(path)["Location"].startswith("/login")


def test_secrets_of_a_submission_are_on_no_page(showcase: TrainingShowcase, ada: Client) -> None:
    for name in NAMES:
        assert "hush-hush" not in ada.get(address(showcase, name)).content.decode(), name


def test_what_models_and_logs_wrote_is_escaped(showcase: TrainingShowcase, ada: Client) -> None:
    rollout = ada.get(address(showcase, "rollout")).content.decode()
    assert "<script>alert" not in rollout
    assert "&lt;script&gt;alert(&#x27;told&#x27;)" in rollout
    log = ada.get(address(showcase, "log")).content.decode()
    assert "&lt;b&gt;not bold" in log
    assert "\x1b" not in log


@pytest.mark.parametrize("number", [1.7e308, -1.7e308, math.inf, 5e-324, 1e100])
@pytest.mark.parametrize("path", ["/training", "/training/{}", "/training/{}/numbers", "/training/{}/rollouts"])
def test_numbers_of_any_size_are_shown(db: None, number: float, path: str) -> None:
    training = create_run()
    start(training)
    bins = Histogram(low=min(number, 0.0), high=max(number, 0.0), counts=(1, 2))
    for step in (1, 2):
        point = EvaluationPoint(label="val", step=step, reward_mean=number, reward_std_error=abs(number))
        more = {"losses": {"loss": number}, "seconds": {"step": number}, "advantages": bins, "evaluations": (point,)}
        report(training, step_report(step, reward_mean=number, kl=number, trained_tokens=10**400, **more))
    client = Client()
    client.force_login(training.created_by)
    assert client.get(path.format(training.pk)).status_code == 200
    assert client.get(f"/api/v1/training/{training.pk}").status_code == 200


def test_charts_cost_the_same_for_a_long_run(
    showcase: TrainingShowcase, ada: Client, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    short = len(ada.get(address(showcase, "charts")).content)
    template = Step.objects.filter(training=showcase.running).order_by("-step")[0]
    Step.objects.bulk_create(
        Step(training=showcase.running, step=step, metrics=template.metrics | {"step": step})
        for step in range(61, 3001)
    )
    TrainingRun.objects.filter(pk=showcase.running.pk).update(step=3000, max_steps=5000)
    with django_assert_max_num_queries(MOST_QUERIES):
        reply = ada.get(address(showcase, "charts"))
    assert "400 of 3\u202f000 steps are drawn" in reply.content.decode()
    assert len(reply.content) < 4 * short


def test_a_page_that_polls_is_told_when_nothing_is_new(showcase: TrainingShowcase, ada: Client) -> None:
    html = ada.get(address(showcase, "charts")).content.decode()
    (poll,) = re.findall(r'id="live" hx-get="([^"]+)"', html)
    htmx = {"HX-Request": "true", "HX-Target": "live"}
    assert ada.get(poll, headers=htmx).status_code == 204
    TrainingRun.objects.filter(pk=showcase.running.pk).update(step=61)
    fragment = ada.get(poll, headers=htmx)
    assert fragment.status_code == 200
    assert fragment.content.decode().strip().startswith('<div id="live"')


def test_a_run_that_has_ended_polls_no_more(showcase: TrainingShowcase, ada: Client) -> None:
    assert not re.search('hx-trigger="[^"]*every', ada.get(address(showcase, "ended")).content.decode())


def test_the_log_is_narrowed_to_a_process_and_a_text(showcase: TrainingShowcase, ada: Client) -> None:
    path = address(showcase, "log")
    learner = ada.get(f"{path}?process=learner").content.decode()
    assert "micro-batches" in learner
    assert "the torch engine serves" not in learner
    assert "the torch engine serves" in ada.get(f"{path}?process=engine").content.decode()
    assert "No matching lines" in ada.get(f"{path}?text=nowhere").content.decode()
    assert ada.get(f"{path}?process=odd").status_code == 422


def test_rollouts_are_narrowed_by_environment_outcome_and_use(showcase: TrainingShowcase, ada: Client) -> None:
    path = address(showcase, "rollouts")

    def count(query: str) -> int:
        return ada.get(f"{path}?{query}").content.decode().count('<td class="nowrap">')

    assert (count(""), count("environment=guess-number"), count("outcome=failed"), count("used=no")) == (32, 8, 1, 9)
    assert ada.get(f"{path}?step=77").status_code == 404
    assert ada.get(f"{path}?outcome=odd").status_code == 422


def test_stopping_and_resuming_lead_back_to_the_run(showcase: TrainingShowcase, ada: Client) -> None:
    stopped = ada.post(f"/training/{showcase.running.pk}/stop")
    assert stopped["Location"] == f"/training/{showcase.running.pk}"
    assert "stopping" in ada.get(stopped["Location"]).content.decode()
    resumed = ada.post(f"/training/{showcase.failed.pk}/resume", follow=True).content.decode()
    assert "The run continues from its newest checkpoint" in resumed


def test_a_run_is_resumed_from_the_checkpoint_whose_button_is_pressed(showcase: TrainingShowcase, ada: Client) -> None:
    run, button = TrainingRun.objects.get(pk=showcase.running.pk), "Confirm resume"
    steps = [checkpoint.step for checkpoint in checkpoints_of(run)]
    path = f"/training/{run.pk}"
    assert button not in ada.get(f"{path}/weights").content.decode()
    end_attempt(run=run_of(run), to=RunState.CANCELLED, now=timezone.now(), failure=CANCELLED)
    html = ada.get(f"{path}/weights").content.decode()
    assert html.count(button) == len(steps) > 1
    html = ada.post(f"{path}/resume", {"step": str(steps[-1])}, follow=True).content.decode()
    assert f"The run continues from step {steps[-1]}" in html
    run.refresh_from_db()
    assert run.step == steps[-1]
    assert ada.post(f"{path}/resume", {"step": "x"}).status_code == 422


def test_a_run_says_what_it_was_evaluated_on(showcase: TrainingShowcase, ada: Client) -> None:
    html = ada.get(address(showcase, "charts")).content.decode()
    assert "50 examples, split eval" in html
    assert "@0.1.0</a>" in html


def test_the_form_begins_with_the_environment_that_was_changed_last(showcase: TrainingShowcase, ada: Client) -> None:
    def named() -> str:
        found = re.search(r"^id = &quot;(.*)&quot;$", ada.get("/training/new").content.decode(), re.MULTILINE)
        return found[1] if found else ""

    newest = Environment.objects.filter(owner__slug="ada", latest__state="ready").order_by("-updated_at").first()
    assert newest is not None
    assert named() == f"ada/{newest.name}"
    Environment.objects.update(archived=True)
    assert named() == "OWNER/NAME"


def test_the_form_starts_a_run_and_says_what_is_wrong(showcase: TrainingShowcase, ada: Client) -> None:
    page = ada.get(address(showcase, "new")).content.decode()
    assert "id = &quot;ada/reverse-text&quot;" in page
    assert "hub train run train.toml" in page
    assert "<b>" not in ada.get("/training/new?environment=</textarea><b>&model=<b>").content.decode()
    toml = 'model = "tiny"\nmax_steps = 2\n[[env]]\nid = "reverse-text"\n'
    started = ada.post("/training/new", {"toml": toml})
    assert re.fullmatch(r"/training/[0-9a-f-]{36}", started["Location"])
    wrong = ada.post("/training/new", {"toml": toml + "ratoi = 2\n"})
    assert wrong.status_code == 422
    assert "Did you mean" in wrong.content.decode()


LIVE = {"HX-Request": "true", "HX-Target": "live"}


def test_fields_and_file_follow_each_other(showcase: TrainingShowcase, ada: Client) -> None:
    toml = 'model = "ada/tiny"\nmax_steps = 2\n[[env]]\nid = "ada/reverse-text"\n'
    typed = {"toml": toml, "max_steps": "7", "environment": "ada/reverse-text", "model": "ada/tiny"}
    html = ada.post("/training/new", typed | {"side": "fields"}, headers=LIVE).content.decode()
    assert "max_steps = 7" in html
    assert "none: a CPU is enough" in html
    html = ada.post("/training/new", typed | {"side": "file"}, headers=LIVE).content.decode()
    assert 'name="max_steps" type="number" value="2"' in html
    html = ada.post("/training/new", typed | {"show": "fields"}).content.decode()
    assert "max_steps = 7" in html
    assert not TrainingRun.objects.filter(max_steps__in=(2, 7)).exists()


def test_the_command_names_the_team_that_is_chosen(showcase: TrainingShowcase, ada: Client) -> None:
    make_owner("lab", members=[User.objects.get(username="ada")])
    toml = 'model = "ada/tiny"\n[[env]]\nid = "ada/reverse-text"\n'
    page = ada.post("/training/new", {"toml": toml, "owner": "lab", "show": "file"}).content.decode()
    assert "hub train run train.toml --team lab</code>" in page
    live = ada.post("/training/new", {"toml": toml, "owner": "lab", "side": "file"}, headers=LIVE).content.decode()
    assert "hub train run train.toml --team lab</code>" in live
    assert "hub train run train.toml</code>" in ada.get("/training/new").content.decode()


def test_what_keeps_it_from_starting_is_told_as_it_is_typed(showcase: TrainingShowcase, ada: Client) -> None:
    toml = 'model = "ada/none"\nsecrets = ["MISSING"]\n[[env]]\nid = "ada/reverse-text"\n'
    html = ada.post("/training/new", {"toml": toml, "side": "file"}, headers=LIVE).content.decode()
    assert "MISSING" in html.partition("Before the run can start")[2].partition("</ul>")[0]
    assert "This hub&#x27;s catalog has no ada/none" in html
    html = ada.post("/training/new", {"toml": "model =", "side": "file"}, headers=LIVE).content.decode()
    assert "Fix it to get the fields back" in html
    html = ada.post("/training/new", {"toml": toml, "max_steps": "x", "side": "fields"}, headers=LIVE).content.decode()
    assert "Not copied to the file" in html


def test_another_run_begins_with_the_configuration_of_one(showcase: TrainingShowcase, ada: Client) -> None:
    link = f"/training/new?from={showcase.ended.pk}"
    assert link in ada.get(f"/training/{showcase.ended.pk}/configuration").content.decode()
    assert "name = &quot;reverse-lora&quot;" in ada.get(link).content.decode()
    assert [ada.get(f"/training/new?from={wrong}").status_code for wrong in ("x", uuid4())] == [404, 404]


def test_an_empty_list_gives_the_command_that_fills_it(mallory: Client) -> None:
    assert "hub train init" in mallory.get("/training").content.decode()


def test_the_page_of_an_adapter_shows_its_origin_and_both_scores(showcase: TrainingShowcase, ada: Client) -> None:
    html = ada.get(address(showcase, "adapter")).content.decode()
    assert f'href="/training/{showcase.ended.pk}"' in html
    assert "0.833" in html
    assert "0.167" in html
    assert "+0.667" in html
    assert "hub deploy create ada/reverse-lora" in html
    assert re.search(r"Evaluated in training</dt><dd>0\.\d+ .*reverse-text@0\.1\.0</a>.*50 examples, split eval", html)


def test_a_rollout_of_four_thousand_tokens_is_a_page_below_a_megabyte(showcase: TrainingShowcase, ada: Client) -> None:
    run = run_of(showcase.running)
    report_step(training=showcase.running, report=long_report(step=61, tokens=5000), guard=lambda: run)
    reply = ada.get(f"/training/{showcase.running.pk}/rollouts/61/0?show=tokens")
    html = reply.content.decode()
    assert html.count(' title="advantage') == 4000
    assert len(reply.content) < 1_000_000
    assert "tokens 1 to 4\u202f000 of 5\u202f000" in html


def test_the_weights_say_how_to_go_back_to_an_earlier_checkpoint(showcase: TrainingShowcase, ada: Client) -> None:
    html = ada.get(address(showcase, "weights")).content.decode()
    assert (
        f"hub train resume {showcase.ended.pk}</code> continues from the newest one. With <code>--step N</code>" in html
    )


def test_what_a_run_made_and_somebody_deleted_is_not_said_to_be_out_of_reach(client: Client, db: None) -> None:
    training = create_run()
    start(training)
    report(training, adapter_report(final=True))
    TrainingRun.objects.filter(pk=training.pk).update(state=RunState.SUCCEEDED.value)
    delete_model(user=training.created_by, model=Model.objects.get(name="sort"))
    client.force_login(training.created_by)
    page = client.get(f"/training/{training.pk}/weights").text
    assert "sort, since deleted" in page
    assert "is no longer in the catalog" in page


def test_a_model_that_the_configuration_names_without_its_owner_is_a_link(client: Client, db: None) -> None:
    training = create_run()
    client.force_login(training.created_by)
    assert f'href="/models/{training.owner.slug}/base"' in client.get(f"/training/{training.pk}").text


def test_a_run_that_mastered_its_task_says_why_it_has_fewer_steps(client: Client, db: None) -> None:
    training = create_run()
    TrainingRun.objects.filter(pk=training.pk).update(state=RunState.SUCCEEDED.value, step=2)
    client.force_login(training.created_by)
    assert "step 2 of 3, then nothing was left to learn" in client.get(f"/training/{training.pk}").text


@pytest.fixture
def young() -> TrainingRun:
    """A public run whose first step has just ended."""
    training = create_run()
    start(training)
    report(training, step_report(1))
    TrainingRun.objects.filter(pk=training.pk).update(visibility="public")
    Environment.objects.filter(owner=training.owner).update(visibility="public")
    return training


def test_one_step_is_values_and_two_are_curves(young: TrainingRun) -> None:
    path, sentence = f"/training/{young.pk}", "Curves appear with the next step"
    first = Client().get(path).text
    assert sentence in first
    assert "charts__grid--one" in first
    report(young, step_report(2))
    assert sentence not in Client().get(path).text


def test_a_run_that_ended_after_one_step_promises_no_other(young: TrainingRun) -> None:
    TrainingRun.objects.filter(pk=young.pk).update(state="failed")
    assert "Only step 1 has finished" in Client().get(f"/training/{young.pk}").text
