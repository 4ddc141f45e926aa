"""What a version needs, met later: the check turns green by itself, and the evaluation that was refused runs."""

from __future__ import annotations

import base64
import json
import zipfile
from pathlib import Path

import pytest
from envhub.protocol.accounts.secrets import SecretRequest
from envhub.protocol.registry.packages import VersionState, VersionView
from envhub.protocol.runs import RunState

from tests.e2e.package_runs import says
from tests.e2e.stack import USER, Stack, wait_until
from tests.factories.packages import write_package
from tests.fakes.policy_endpoint import PolicyEndpoint

pytestmark = [pytest.mark.verifiers, pytest.mark.sandbox]
QUEUED_S = 1.0  # from the upload of what was needed until its check waits for a worker
GREEN_S = 30.0  # until it is green; 6 s on two busy cores, and other tests may be busier
HEAD = "import os\nimport verifiers as vf\nfrom datasets import Dataset, load_dataset\n\n"
TAIL = """
    def exact(completion, answer) -> float:
        return float(completion[-1]["content"].strip() == answer)

    return vf.SingleTurnEnv(dataset=rows, rubric=vf.Rubric(funcs=[exact]))
"""
READS_DATA = f"""{HEAD}def load_environment() -> vf.Environment:
    rows = load_dataset("e2e/words", split="train")
{TAIL}"""
URL = "https://raw.githubusercontent.com/e2e/words/main/words.txt"
READS_A_FILE = f"""import urllib.request
{HEAD}def load_environment() -> vf.Environment:
    words = urllib.request.urlopen("{URL}").read().decode().split()
    rows = Dataset.from_list([{{"question": word, "answer": word}} for word in words])
{TAIL}"""
READS_CORPORA = f"""import nltk
import tiktoken.load
{HEAD}def load_environment() -> vf.Environment:
    nltk.download("stopwords")
    words = list(nltk.corpus.stopwords.words("english"))
    ranks = tiktoken.load.load_tiktoken_bpe("https://openaipublic.blob.core.windows.net/encodings/e2e.tiktoken")
    rows = Dataset.from_list([{{"question": word, "answer": word}} for word in words if word.encode() in ranks])
{TAIL}"""
ASKS = f"""{HEAD}def load_environment(word: str) -> vf.Environment:
    assert os.environ["E2E_KEY"] == "open sesame"
    rows = Dataset.from_list([{{"question": word, "answer": word}}])
{TAIL}"""


def version_of(stack: Stack, name: str) -> VersionView:
    with stack.client() as hub:
        return hub.environments.version(f"{USER}/{name}")


def test_a_data_set_that_comes_turns_its_check_green_by_itself(stack: Stack, tmp_path: Path) -> None:
    stack.wait_ready(stack.push(write_package(tmp_path, "e2e-waits", source=READS_DATA)))
    waiting = version_of(stack, "e2e-waits")
    assert waiting.state is VersionState.READY
    assert [need.words for need in waiting.needs] == ["data set e2e/words"], waiting.checks
    model = stack.register(PolicyEndpoint(answer=says("one")))
    evaluation = ("eval", "run", "e2e-waits", "-m", model, "-n", "1", "-r", "1")
    refused = stack.cli(*evaluation, code=1).err
    assert "needs data set e2e/words" in refused
    assert "hub data add e2e/words DIRECTORY" in refused

    rows = tmp_path / "words"
    rows.mkdir()
    (rows / "train.jsonl").write_text(json.dumps({"question": "one", "answer": "one"}) + "\n")
    stack.cli("data", "add", "e2e/words", str(rows), HUB_TOKEN=stack.make_token("admin", "read,write,admin"))

    def checks() -> str:
        return str(version_of(stack, "e2e-waits").checks)

    wait_until(lambda: not version_of(stack, "e2e-waits").needs, 120, checks)
    green = version_of(stack, "e2e-waits")
    with stack.client() as hub:
        uploaded = next(data.created_at for data in hub.data.list() if data.repository == "e2e/words")
        run = stack.wait_run(green.check_run_id or "")
    assert (run.created_at - uploaded).total_seconds() < QUEUED_S
    assert run.finished_at is not None
    seconds = (run.finished_at - uploaded).total_seconds()
    print(f"green {seconds:.1f} s after the upload")
    assert seconds < GREEN_S
    assert green.state is VersionState.READY
    assert all(check.passed for check in green.checks), green.checks
    assert green.lock_sha256 == waiting.lock_sha256
    assert stack.cli(*evaluation, "--json").json["summary"]["reward"]["mean"] == 1.0


@pytest.mark.matrix  # another kind of need in the same story; tests/hub/data tells what boxes do with each kind
def test_a_file_that_comes_is_read_at_its_own_address_by_the_package_as_it_is(stack: Stack, tmp_path: Path) -> None:
    stack.wait_ready(stack.push(write_package(tmp_path, "e2e-reads", source=READS_A_FILE)))
    waiting = version_of(stack, "e2e-reads")
    assert waiting.state is VersionState.READY
    assert [need.words for need in waiting.needs] == [f"file {URL}"], waiting.checks
    words = tmp_path / "words.txt"
    words.write_text("one\n")
    administrator = stack.make_token("admin", "read,write,admin")
    stack.cli("data", "add", URL, str(words), "--kind", "file", HUB_TOKEN=administrator)
    wait_until(
        lambda: not version_of(stack, "e2e-reads").needs, 120, lambda: str(version_of(stack, "e2e-reads").checks)
    )
    assert all(check.passed for check in version_of(stack, "e2e-reads").checks)
    model = stack.register(PolicyEndpoint(answer=says("one")))
    evaluation = stack.cli("eval", "run", "e2e-reads", "-m", model, "-n", "1", "-r", "1", "--json").json
    assert evaluation["summary"]["reward"]["mean"] == 1.0


@pytest.mark.matrix  # another kind of need in the same story; tests/hub/data tells what boxes do with each kind
def test_nltk_and_tiktoken_find_what_the_hub_keeps(stack: Stack, tmp_path: Path) -> None:
    requires = ("verifiers>=0.1.8", "nltk", "tiktoken")
    name, administrator = "e2e-corpora", stack.make_token("admin", "read,write,admin")
    stack.wait_ready(stack.push(write_package(tmp_path, name, source=READS_CORPORA, dependencies=requires)))
    words, encoding = tmp_path / "stopwords.zip", tmp_path / "e2e.tiktoken"
    with zipfile.ZipFile(words, "w") as archive:
        archive.writestr("stopwords/english", "one\ntwo\n")
    encoding.write_bytes(base64.b64encode(b"one") + b" 0\n")
    for need, corpus, path in (("nltk:stopwords", "stopwords", words), ("tiktoken:e2e", "e2e", encoding)):

        def found(need: str = need) -> bool:
            return [lacking.words for lacking in version_of(stack, name).needs] == [f"corpus {need}"]

        wait_until(found, 120, lambda: str(version_of(stack, name).checks))
        stack.cli("data", "add", corpus, str(path), "--kind", need.partition(":")[0], HUB_TOKEN=administrator)
    wait_until(lambda: not version_of(stack, name).needs, 120, lambda: str(version_of(stack, name).checks))
    assert all(check.passed for check in version_of(stack, name).checks), version_of(stack, name).checks


@pytest.mark.matrix
def test_what_is_given_by_env_check_turns_it_green_and_runs_must_bring_it_too(stack: Stack, tmp_path: Path) -> None:
    stack.wait_ready(stack.push(write_package(tmp_path, "e2e-asks", source=ASKS)))
    lacking = version_of(stack, "e2e-asks")
    assert lacking.state is VersionState.READY
    assert lacking.needs, lacking.checks
    with stack.client() as hub:
        hub.secrets.put(USER, "E2E_KEY", SecretRequest(value="open sesame"))
    given = ("--env-args", '{"word": "one"}', "--secret", "E2E_KEY")
    assert f"ready {USER}/e2e-asks@0.1.0" in stack.cli("env", "check", "e2e-asks", *given).out
    model = stack.register(PolicyEndpoint(answer=says("one")))
    run = ("eval", "run", "e2e-asks", "-m", model, "-n", "1", "-r", "1")
    assert "needs" in stack.cli(*run, code=1).err
    view = stack.cli(*run, *given, "--json").json
    assert (RunState(view["state"]), view["summary"]["reward"]["mean"]) == (RunState.SUCCEEDED, 1.0)
