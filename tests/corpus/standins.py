"""Stand-ins for public data sets that cannot be had here: repositories with the columns and splits of the real ones.

`write(name, folder)` writes one as `hub data add` takes it. Rows are made up; only their shape is the original's.
"""

from __future__ import annotations

import json
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envhub.protocol.registry.needs import NeedKind, distinct

from tests.corpus.trials import Trial
from tests.e2e.stack import Stack

SETTLE_S = 300.0
ROWS = 1000  # some environments select a fixed number
_COMMIT = re.compile(r"\b[0-9a-f]{40}\b")
Row = Callable[[int], dict[str, Any]]
NAMES = [f"{first}{last}" for first in ("Ada", "Bo", "Cy", "Di", "Ed") for last in ("Low", "Moss", "Nye", "Orr", "Poe")]
SENTENCE = "The river of region {i} runs past {n} old mills and a quiet market before it slowly reaches the wide sea"


@dataclass(frozen=True)
class StandIn:
    """One configuration of a data set."""

    row: Row
    splits: tuple[str, ...] = ("train", "test")
    config: str = "default"
    sizes: tuple[int, ...] = ()  # of its splits, where environments insist on the original's


def _paragraph(i: int) -> str:
    return ". ".join(SENTENCE.format(i=i, n=n) for n in range(5)) + "."


def _problem(i: int) -> dict[str, Any]:
    return {"problem": f"What is {i} + 2?", "answer": str(i + 2), "solution": f"It is \\boxed{{{i + 2}}}.", "id": i}


def _leveled(i: int) -> dict[str, Any]:
    return {**_problem(i), "level": f"Level {i % 5 + 1}", "type": "Algebra"}


def _question(i: int) -> dict[str, Any]:
    return {"question": f"What is {i} + 2?", "answer": str(i + 2)}


def _grade_school(i: int) -> dict[str, Any]:
    return {**_question(i), "answer": f"Add.\n#### {i + 2}"}


def _science(i: int) -> dict[str, Any]:
    return {
        "Question": f"What is {i} + 2?",
        "Correct Answer": str(i + 2),
        "Incorrect Answer 1": str(i + 3),
        "Incorrect Answer 2": str(i + 4),
        "Incorrect Answer 3": str(i + 5),
        "Record ID": str(i),
    }


def _choices(i: int) -> dict[str, Any]:
    return {
        "question_id": i,
        "question": f"What is {i} + 2?",
        "options": [str(i + 2 + (n - i) % 4) for n in range(4)],
        "answer": "ABCD"[i % 4],
        "answer_index": i % 4,
        "cot_content": "",
        "category": "other",
        "src": "made up",
    }


def _instruction(i: int) -> dict[str, Any]:
    return {
        "key": i,
        "prompt": f"Write about river {i} without commas.",
        "instruction_id_list": ["punctuation:no_comma"],
        "kwargs": [{}],
    }


def _word_count(i: int) -> dict[str, Any]:
    return {
        "key": i,
        "prompt": f"Write about river {i} in {i % 3 + 3} to 9 words.",
        "instruction_id_list": ["count:word_count_range"],
        "kwargs": [{"min_words": i % 3 + 3, "max_words": 9}],
    }


def _numbered(i: int) -> dict[str, Any]:
    return {"problem_idx": i, "problem": f"What is {i} + 2?", "answer": i + 2}


def _graded(i: int) -> dict[str, Any]:
    return {**_question(i), "info": "{}", "avg@16_qwen3_4b_instruct_2507": 0.5}


def _graph(i: int) -> dict[str, Any]:
    return {
        "prompt": f"Edges: a{i} -> b. Which nodes follow a{i}?",
        "answer_nodes": ["b"],
        "prompt_chars": 100,
        "problem_type": "bfs",
    }


def _rubric(i: int) -> dict[str, Any]:
    messages = [{"role": "user", "content": f"Explain river {i}."}]
    metadata = {"context_category": "rivers", "sub_category": "long"}
    return {"messages": messages, "rubrics": ["names the river"], "metadata": metadata}


def _unscramble(i: int) -> dict[str, Any]:
    return {"prompt": f"Unscramble {i}: b a", "verification_info": json.dumps({"ground_truth": "1: a\n2: b"})}


def _comment(i: int) -> dict[str, Any]:
    return {"text": f"comment {i}", "toxicity": (i % 2) * 1.0}


def _exam(i: int) -> dict[str, Any]:
    return {**_question(i), "id": str(i), "image": "", "answer_type": "exactMatch", "raw_subject": "x", "category": "y"}


def _article(i: int) -> dict[str, Any]:
    return {"prompt": [{"role": "user", "content": f"Summarize in one word.\n\n---\n\n{_paragraph(i)}"}]}


def _long(i: int) -> dict[str, Any]:
    question = {"question_nonthinking": f"How many mills of region {i}?", "question_thinking": f"Mills of region {i}?"}
    tasks = {"primary_task": "T1. Retrieval", "secondary_task": "T1.1 Global"}
    about = {"id": str(i), "difficulty": "Easy", "token_length": "8k", "language": "English"}
    return {**question, **tasks, **about, "context": _paragraph(i), "answer": [str(i)]}


def _theorem(i: int) -> dict[str, Any]:
    statement = f"theorem plus_{i} : {i} + 2 = {i + 2} := by"
    return {"name": f"plus_{i}", "header": "", "formal_statement": statement, "goal": "", "formal_proof": "rfl"}


STAND_INS: dict[str, tuple[StandIn, ...]] = {
    "openai/gsm8k": (
        StandIn(lambda i: {**_question(i), "answer": f"Add.\n#### {i + 2}"}, config="main", sizes=(7473, 1319)),
    ),
    "chiayewken/competition_math": (StandIn(_problem),),
    "PrimeIntellect/Hendrycks-Math": (StandIn(_question),),
    "DigitalLearningGmbH/MATH-lighteval": (StandIn(_leveled, sizes=(7500, 5000)),),
    "HuggingFaceH4/MATH-500": (StandIn(_problem, ("test",)),),
    "HuggingFaceH4/aime_2024": (StandIn(_problem, ("train",)),),
    "opencompass/AIME2025": (
        StandIn(_question, ("test",), "AIME2025-I"),
        StandIn(_question, ("test",), "AIME2025-II"),
    ),
    "MathArena/aime_2026": (StandIn(_numbered, ("train",)),),
    "Idavidrein/gpqa": (
        StandIn(_science, ("train",), "gpqa_diamond"),
        StandIn(_science, ("train",), "gpqa_main"),
    ),
    "TIGER-Lab/MMLU-Pro": (StandIn(_choices, ("validation", "test"), sizes=(70, 12032)),),
    "PrimeIntellect/INTELLECT-3-RL": tuple(
        StandIn(_graded, ("train",), name) for name in ("math", "science", "logic", "code")
    ),
    "google/IFEval": (StandIn(_instruction, ("train",), sizes=(541,)),),
    "allenai/IFBench_test": (StandIn(_word_count, ("train",)),),
    "openai/graphwalks": (StandIn(_graph, ("train",)),),
    "cais/hle": (StandIn(_exam, ("test",)),),
    "zai-org/DeepDive": (StandIn(_question, ("qa_rl", "qa_sft")),),
    "kalomaze/glm-wikisummary-if-it4-think": (StandIn(_article, ("train",)),),
    "caskcsg/LongBench-Pro": (StandIn(_long, ("test",)),),
    "deepseek-ai/DeepSeek-Prover-V1": (StandIn(_theorem, ("train",)),),
    "tencent/CL-bench": (StandIn(_rubric, ("train",)),),
    "kalomaze/unscramble-mix-it2": (StandIn(_unscramble, ("train",)),),
    "basicv8vc/SimpleQA": (StandIn(_problem, ("test",)),),
    "stalkermustang/SimpleQA-Verified": (StandIn(_problem, ("test",)),),
    "POLARIS-Project/Polaris-Dataset-53K": (StandIn(_problem, ("train",)),),
    "PrimeIntellect/Reverse-Text-RL": (StandIn(lambda i: {"prompt": f"river {i}"}, ("train",)),),
    "agentlans/wikipedia-paragraphs": (StandIn(lambda i: {"text": _paragraph(i)}, ("train",)),),
    "google/civil_comments": (StandIn(_comment, ("train",)),),
    "kalomaze/alphabetic-arxiv-authors-it1": (StandIn(lambda i: {"names": NAMES[i % 5 :]}, ("train",)),),
}


def write(name: str, folder: Path) -> None:
    """The repository of a stand-in: a card that names its configurations, and a JSON lines file for each split."""
    card = ["---", "configs:"]
    for one in STAND_INS[name]:
        card += [f"- config_name: {one.config}", "  data_files:"]
        for split, size in zip(one.splits, one.sizes or [ROWS] * len(one.splits), strict=True):
            path = f"{one.config}/{split}.jsonl"
            card += [f"  - split: {split}", f"    path: {path}"]
            (folder / one.config).mkdir(parents=True, exist_ok=True)
            (folder / path).write_text("".join(json.dumps(one.row(i)) + "\n" for i in range(size)))
    (folder / "README.md").write_text("\n".join([*card, "---", "Made-up rows.", ""]))


def add(stack: Stack, trials: Sequence[Trial]) -> list[str]:
    """Give the hub every data set that some trial needs and that we can stand in for, as an administrator would."""
    needs = distinct(need for trial in trials if trial.view for need in trial.view.needs)
    wanted = [need.name for need in needs if need.kind is NeedKind.DATA_SET and need.name in STAND_INS]
    token = stack.make_token("admin", "read,write,admin")
    for name in wanted:
        with tempfile.TemporaryDirectory(prefix="stand-in-") as folder:
            write(name, Path(folder))
            for revision in ("", *pinned(name, trials)):
                at = ("--revision", revision) if revision else ()
                stack.cli("data", "add", name, folder, *at, HUB_TOKEN=token)
    return wanted


def pinned(name: str, trials: Iterable[Trial]) -> set[str]:
    """The commits by which packages that need this data set ask for it."""
    asking = [trial for trial in trials if trial.view and any(need.name == name for need in trial.view.needs)]
    sources = (path.read_text(errors="replace") for trial in asking for path in trial.package.directory.rglob("*.py"))
    return {revision for source in sources for revision in _COMMIT.findall(source)}


def settle(stack: Stack, trial: Trial) -> bool:
    """Wait until a version that needed a stand-in was checked again by itself; whether it was one of these."""
    if trial.view is None or not any(need.name in STAND_INS for need in trial.view.needs):
        return False
    view, deadline = trial.view, time.monotonic() + SETTLE_S
    while any(need.name in STAND_INS for need in view.needs) and time.monotonic() < deadline:
        time.sleep(0.5)
        with stack.client() as hub:
            view = hub.environments.version(f"{view.owner}/{view.name}", view.version)
    trial.view, trial.made_up = view, True
    return True
