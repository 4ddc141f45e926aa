"""Every page answers within its budget of queries, and what packages and models wrote stays text."""

from __future__ import annotations

import json
import re
import shlex
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from django.utils.html import escape
from envhub.protocol.registry.files import FileRequest
from envhub.protocol.runs import RunState
from pytest_django import DjangoAssertNumQueries

from hub.data.files import add_file
from hub.runs.models import Run, Worker
from tests.factories.accounts import make_user
from tests.factories.registry import create_ready_version
from tests.factories.storage import make_blob
from tests.hub.web.addresses import NAMES, address
from tests.hub.web.showcase import HOSTILE, Showcase

pytestmark = pytest.mark.django_db
MOST_QUERIES = 15
MORE_QUERIES = {
    "evaluate": 18,  # the arguments, the owners, the models to choose from
    "environment-evaluations": 18,  # the leaderboard beside the list, the watches of scores
    "needing-evaluate": 29,  # it looks at everything that could stand in the way
    "rollout": 16,  # its neighbours in the list, and the next that failed or scored nothing
    "failed-rollout": 16,
    "home": 22,  # it shows four lists, one of them with stars
}


@pytest.mark.parametrize("name", NAMES)
def test_a_page_answers_with_few_queries(
    showcase: Showcase, ada: Client, name: str, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_max_num_queries(MORE_QUERIES.get(name, MOST_QUERIES)):
        reply = ada.get(address(showcase, name))
    assert reply.status_code == 200
    assert "<h1" in reply.content.decode()


@pytest.mark.parametrize("name", NAMES)
def test_no_page_has_inline_scripts_or_styles(showcase: Showcase, ada: Client, name: str) -> None:
    html = ada.get(address(showcase, name)).content.decode()
    assert re.findall(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=\"|javascript:", html) == []


@pytest.mark.parametrize("name", ["evaluation", "rollout", "evaluations", "environment-evaluations"])
def test_a_private_evaluation_is_hidden_from_others(showcase: Showcase, mallory: Client, name: str) -> None:
    reply = mallory.get(address(showcase, name))
    assert reply.status_code == (404 if name in {"evaluation", "rollout"} else 200)
    assert str(showcase.ended.pk) not in reply.content.decode().replace(reply.request["PATH_INFO"], "")


def test_the_overview_shows_what_the_build_found(showcase: Showcase, ada: Client) -> None:
    html = ada.get(address(showcase, "environment")).content.decode()
    for found in ("right_answer", "use the tool: 3*4", "Evaluate an arithmetic expression.", "num_eval"):
        assert found in html


def test_a_private_environment_looks_like_no_environment(showcase: Showcase, mallory: Client) -> None:
    showcase.version.environment.visibility = "private"
    showcase.version.environment.save(update_fields=["visibility"])
    hidden = mallory.get("/environments/ada/calculator-tool")
    absent = mallory.get("/environments/ada/no-such-tool")
    assert (hidden.status_code, absent.status_code) == (404, 404)
    texts = [
        re.sub(r'value="\w{64}"|calculator-tool|no-such-tool', "", page.content.decode()) for page in (hidden, absent)
    ]
    assert texts[0] == texts[1]
    assert "calculator-tool" not in mallory.get("/environments").content.decode()


def test_installers_of_a_private_environment_get_a_token_from_the_shell(showcase: Showcase, ada: Client) -> None:
    page = address(showcase, "environment")
    assert "$HUB_TOKEN@" not in ada.get(page).content.decode()
    showcase.version.environment.visibility = "private"
    showcase.version.environment.save(update_fields=["visibility"])
    index = "http://__token__:$HUB_TOKEN@127.0.0.1:8000/index/ada/simple/"
    assert ada.get(page).content.decode().count(f"--extra-index-url {index}") == 2


def test_installers_are_told_the_release_of_verifiers_that_runs_the_version(showcase: Showcase, ada: Client) -> None:
    version, html = showcase.version, ada.get(address(showcase, "environment")).content.decode()
    wanted = f"pip install calculator-tool=={version.version} verifiers=={version.lock['verifiers']} --extra-index-url"
    assert html.count(wanted) == 2  # of pip and of uv
    version.lock = None
    version.save(update_fields=["lock"])
    assert "verifiers==" not in ada.get(address(showcase, "environment")).content.decode()


def test_hostile_rollout_text_is_escaped(showcase: Showcase, ada: Client) -> None:
    html = ada.get(address(showcase, "rollout")).content.decode()
    assert HOSTILE not in html
    assert "&lt;script&gt;alert(&#x27;rollout&#x27;)" in html


def test_a_hostile_readme_is_sanitised(showcase: Showcase, ada: Client) -> None:
    html = ada.get(address(showcase, "environment")).content.decode()
    assert 'document.title = "hacked"' not in re.sub(r"&[a-z]+;.*?&lt;/script&gt;", "", html)
    assert "<h2>calculator-tool</h2>" in html
    assert "<script>document" not in html


def test_a_hostile_log_is_escaped_and_loses_its_colours(showcase: Showcase, ada: Client) -> None:
    html = ada.get(address(showcase, "run")).content.decode()
    assert "&lt;b&gt;not bold&lt;/b&gt;" in html
    assert "\x1b" not in html


def test_a_file_is_shown_as_text(showcase: Showcase, ada: Client) -> None:
    html = ada.get(address(showcase, "file")).content.decode()
    (line,) = re.findall(r'<span class="line" id="L\d+"><a href="#L\d+"[^>]*></a>(.*load_environment.*)</span>\n', html)
    assert line.startswith('<span class="code-word">def</span> load_environment(num_examples: int =')
    assert line.endswith("-&gt; vf.Environment:")


def test_a_file_that_is_not_there_is_404(showcase: Showcase, ada: Client) -> None:
    assert ada.get(f"{address(showcase, 'files')}?path=../../etc/passwd").status_code == 404


def test_the_version_page_says_what_the_build_found(showcase: Showcase, ada: Client) -> None:
    html = ada.get(address(showcase, "invalid-version")).content.decode()
    assert "No module named &#x27;numpi&#x27;" in html
    assert "add it to dependencies and push again" in html
    assert "ModuleNotFoundError" in html


def test_a_version_that_needs_something_says_what_meets_it_harmlessly(showcase: Showcase, ada: Client) -> None:
    html = ada.get(address(showcase, "needing-version")).content.decode()
    assert "hub data add openai/gsm8k DIRECTORY" in html
    assert "hubs have sandboxes for prime-sandboxes" in html
    assert escape(shlex.quote(json.dumps({"corpus_path'; rm -rf ~; '": "..."}))) in html
    assert HOSTILE not in html
    assert html.count('aria-label="needs something"') == 2
    assert " --secret HF_TOKEN" in html  # which its checks are given, and each run must be


def test_the_releases_that_were_tried_are_shown_with_why_each_was_not_taken(showcase: Showcase, ada: Client) -> None:
    html = ada.get(address(showcase, "needing-version")).content.decode()
    for text in ("0.4.1", "0.1.15.dev11", "cannot import name", "conflict", "chosen"):
        assert text in html
    assert "Releases tried" not in ada.get(address(showcase, "version")).content.decode()


def test_an_environment_whose_latest_version_needs_something_says_so(showcase: Showcase, ada: Client) -> None:
    html = ada.get(address(showcase, "needing-environment")).content.decode()
    assert "This version cannot run yet" in html
    assert "hub install ada/deep-search" in html
    listed = ada.get("/environments").content.decode()
    assert listed.count("needs 6") == 1
    assert '<span class="badge badge--good">ready</span>' not in listed


def test_members_check_again_and_nobody_else(showcase: Showcase, ada: Client, mallory: Client) -> None:
    page = address(showcase, "needing-version")
    assert "Rerun checks" not in mallory.get(page).content.decode()
    assert mallory.post(f"{page}/check").status_code == 403
    assert "Rerun checks" in ada.get(page).content.decode()
    assert ada.post(f"{page}/check").status_code == 302
    html = ada.get(page).content.decode()
    assert "are running again" in html
    assert "Rerun checks" not in html


def test_an_environment_says_that_checks_of_its_ready_version_failed(db: None, ada: Client) -> None:
    version = create_ready_version()
    page = f"/environments/{version.environment.owner.slug}/{version.environment.name}"
    assert "failed</a>" not in ada.get(page).content.decode()
    version.checks = [{"name": "scripted-rollout", "passed": False, "summary": "the reward function raised"}]
    version.save()
    assert f'href="{page}/versions/{version.version}#checks">1 check failed</a>' in ada.get(page).content.decode()


def test_a_description_of_any_shape_does_not_break_the_page(showcase: Showcase, ada: Client) -> None:
    showcase.version.describe = {"splits": 7, "tools": "none", "rewards": [1]}
    showcase.version.save(update_fields=["describe"])
    assert ada.get(address(showcase, "version")).status_code == 200


def test_visitors_see_how_to_begin(showcase: Showcase) -> None:
    html = Client().get("/").content.decode()
    assert "hub push" in html
    assert "calculator-tool" in html


def test_the_start_of_somebody_without_anything_is_what_to_do_first(mallory: Client) -> None:
    html = mallory.get("/").content.decode()
    assert "Add a sample environment" in html
    assert "Latest evaluations" not in html


def test_the_start_says_what_failed_lately_and_why(showcase: Showcase, ada: Client, mallory: Client) -> None:
    failure = {"kind": "environment", "code": "load_failed", "message": "no module named <b>numpy</b>", "hint": ""}
    ended = {"state": RunState.FAILED.value, "failure": failure, "finished_at": timezone.now()}
    Run.objects.filter(pk=showcase.ended.run_id).update(**ended)
    html = ada.get("/").content.decode()
    assert "Failed in the last week" in html
    assert "no module named &lt;b&gt;numpy" in html
    assert "Failed in the last week" not in mallory.get("/").content.decode()
    Run.objects.filter(pk=showcase.ended.run_id).update(created_at=timezone.now() - timedelta(days=8))
    assert "no module named" in ada.get("/").content.decode()
    Run.objects.filter(pk=showcase.ended.run_id).update(finished_at=timezone.now() - timedelta(days=8))
    assert "no module named" not in ada.get("/").content.decode()


@pytest.mark.parametrize("path", ["/runs", "/data", "/settings/secrets", "/settings/tokens"])
def test_what_needs_a_user_leads_to_signing_in_and_back(db: None, path: str) -> None:
    assert Client().get(path)["Location"] == f"/login?next={path}"


@pytest.mark.parametrize(
    ("path", "command"),
    [
        ("/", "hub init my-env"),
        ("/evaluations", "hub eval run"),
        ("/runs", "hub push"),
        ("/models", "hub model add"),
        ("/data", "hub data add"),
        ("/settings/tokens", "hub login"),
        ("/settings/secrets", "hub secret set"),
    ],
)
def test_an_empty_page_gives_the_command_that_fills_it(mallory: Client, path: str, command: str) -> None:
    assert command in mallory.get(path).content.decode()


def test_an_unknown_page_is_html_and_an_unknown_call_json(db: None) -> None:
    page, call = Client().get("/nowhere"), Client().get("/api/v1/nowhere")
    assert (page.status_code, page["Content-Type"].partition(";")[0]) == (404, "text/html")
    assert "Page not found" in page.content.decode()
    assert call["Content-Type"] == "application/json"


@pytest.mark.parametrize(
    ("path", "back"),
    [("/evaluations/019a0000-0000-7000-8000-000000000000", "/evaluations"), ("/nowhere", "/environments")],
)
def test_an_error_leads_back_to_the_list_of_its_address(db: None, path: str, back: str) -> None:
    assert f'class="button" href="{back}"' in Client().get(path).content.decode()


def test_kept_files_are_listed_with_who_brought_them(mallory: Client) -> None:
    blob, root = make_blob(), make_user("librarian")
    for kind, name in (("tiktoken", "cl100k_base"), ("file", "https://h.test/words.txt")):
        add_file(
            request=FileRequest.model_validate({"kind": kind, "name": name, "sha256": blob.pk, "size": blob.size}),
            by=root,
        )
    html = mallory.get("/data").content.decode()
    assert all(text in html for text in ("cl100k_base", "https://h.test/words.txt", "librarian", blob.pk[:10]))


def test_who_may_add_data_is_said(mallory: Client) -> None:
    assert "administrator" in mallory.get("/data").content.decode().lower()


def test_signing_in_names_a_command_that_administrators_have(ada: Client, client: Client) -> None:
    html = client.get("/login").content.decode()
    assert ("hub user invite" in html, "manage.py" in html) == (True, False)


def test_a_hub_without_workers_names_the_command_that_makes_their_token(mallory: Client) -> None:
    Worker.objects.all().delete()
    html = mallory.get("/runs").content.decode()
    assert ("hub worker token" in html, "manage.py" in html) == (True, False)
