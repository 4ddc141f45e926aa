"""Games that read NLTK's corpora when they load: needed, added by hand, checked again by themselves, then played."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from envhub.protocol.registry.needs import NeedKind
from envhub.protocol.registry.packages import VersionState, VersionView

from tests.e2e.package_runs import PACKAGES, says
from tests.e2e.stack import USER, Stack, wait_until
from tests.fakes.policy_endpoint import PolicyEndpoint

pytestmark = [pytest.mark.matrix, pytest.mark.verifiers, pytest.mark.sandbox]
WORD = "crane"
TAGGER = "averaged_perceptron_tagger_eng"
GAMES = {"e2e-textarena": f"<guess>[{WORD}]</guess>", "e2e-gem": f"\\boxed{{{WORD}}}"}


def packed(folder: Path, name: str, **files: str) -> Path:
    """A package as NLTK's index has it."""
    path = folder / f"{name}.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for file, text in files.items():
            archive.writestr(f"{name}/{file}", text)
    return path


def version_of(stack: Stack, name: str) -> VersionView:
    with stack.client() as hub:
        return hub.environments.version(f"{USER}/{name}")


def test_games_find_their_words_in_the_hub(stack: Stack, tmp_path: Path) -> None:
    for name in GAMES:
        waiting = stack.wait_ready(stack.push(PACKAGES / name))
        assert waiting.state is VersionState.READY, waiting.failure
        needs = version_of(stack, name).needs
        assert {need.kind for need in needs} == {NeedKind.CORPUS}, version_of(stack, name).checks
    tagger = {
        f"{TAGGER}.weights.json": "{}",
        f"{TAGGER}.tagdict.json": json.dumps({WORD: "NN"}),
        f"{TAGGER}.classes.json": json.dumps(["NN"]),
    }
    archives = {
        "words": packed(tmp_path, "words", en=WORD, README="", **{"en-basic": WORD}),
        TAGGER: packed(tmp_path, TAGGER, **tagger),
    }
    administrator = stack.make_token("admin", "read,write,admin")
    for name, path in archives.items():
        stack.cli("data", "add", name, str(path), "--kind", "nltk", HUB_TOKEN=administrator)
    for name, answer in GAMES.items():

        def checks(name: str = name) -> str:
            return str(version_of(stack, name).checks)

        wait_until(lambda name=name: not version_of(stack, name).needs, 120, checks)  # type: ignore[misc]
        model = stack.register(PolicyEndpoint(answer=says(answer)))
        run = ("eval", "run", name, "-m", model, "-n", "1", "-r", "2", "--json")
        assert stack.cli(*run).json["summary"]["reward"]["mean"] == 1.0
