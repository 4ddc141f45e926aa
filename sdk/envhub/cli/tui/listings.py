"""What the screens list, wherever it comes from: the hub, a step of a training run, or a directory of this machine."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from envhub.client import HubClient
from envhub.packaging.conversation import Message, last_message, openings
from envhub.packaging.saved.finding import read_saved_results
from envhub.protocol.evals.evaluations import EvaluationView
from envhub.protocol.evals.rollouts import Outcome, RolloutRecord

PAGE = 1000  # rollouts that a list shows at first, and more at each wish
FILES = ("results.jsonl", "traces.jsonl")
SNIPPET = 200


@dataclass(frozen=True)
class Entry:
    """One rollout of a list; `load` reads it whole."""

    label: str
    outcome: str
    reward: float | None
    asked: str
    answered: str
    tokens: int
    load: Callable[[], RolloutRecord]

    @property
    def failed(self) -> bool:
        """Whether it has no reward because something broke."""
        return self.outcome not in {Outcome.OK.value, Outcome.TRUNCATED.value}


@dataclass(frozen=True)
class Listing:
    """Rollouts under a title; `rows` asks for the first so many of them, again as often as is wanted."""

    title: str
    rows: Callable[[int], list[Entry]]
    is_final: Callable[[], bool] = lambda: True


def of_evaluation(hub: HubClient, view: EvaluationView) -> Listing:
    """The rollouts of an evaluation, by example."""

    def rows(most: int) -> list[Entry]:
        found = islice(hub.evaluations.rollouts(view.id, sort="example"), most)
        return [
            Entry(
                label=f"{row.example} · {row.rollout}",
                outcome=row.failure_kind.value if row.failure_kind else row.outcome.value,
                reward=row.reward,
                asked=row.asked,
                answered=row.failure_message or row.answered,
                tokens=row.usage.completion_tokens,
                load=partial(hub.evaluations.rollout, view.id, row.example, row.rollout),
            )
            for row in found
        ]

    title = f"{view.name or view.environment} on {view.model}"
    return Listing(title, rows, lambda: hub.evaluations.get(view.id).state.is_final)


def of_step(hub: HubClient, training_id: str, step: int) -> Listing:
    """The rollouts of a training step."""

    def rows(most: int) -> list[Entry]:
        return [
            Entry(
                label=f"{row.index} · example {row.example}",
                outcome=row.failure_kind.value if row.failure_kind else row.outcome.value,
                reward=row.reward,
                asked=row.environment,
                answered=row.failure_message or row.dropped,
                tokens=row.completion_tokens,
                load=partial(hub.training.rollout, training_id, step, row.index),
            )
            for row in islice(hub.training.rollouts(training_id, step=step), most)
        ]

    return Listing(f"Step {step}", rows)


def local_directories(root: Path) -> list[Path]:
    """Where `hub eval run --local` and vf-eval have written results, newest first."""
    found = {path.parent for name in FILES for path in root.glob(f"**/{name}")} if root.is_dir() else set()
    return sorted(found, key=lambda path: path.stat().st_mtime, reverse=True)


def of_directory(directory: Path) -> Listing:
    """The rollouts that a directory holds."""

    def rows(most: int) -> list[Entry]:
        return [_saved(record) for record in read_saved_results(directory).records[:most]]

    return Listing(str(directory), rows)


def _saved(record: RolloutRecord) -> Entry:
    prompt, completion = openings(record)
    return Entry(
        label=f"{record.example} · {record.rollout}",
        outcome=record.failure.kind.value if record.failure else record.outcome.value,
        reward=record.reward,
        asked=_snippet(last_message(prompt, "user")),
        answered=record.failure.message if record.failure else _snippet(last_message(completion, "assistant")),
        tokens=record.usage.completion_tokens,
        load=lambda: record,
    )


def _snippet(message: Message | None) -> str:
    return " ".join(message.text.split())[:SNIPPET] if message else ""
