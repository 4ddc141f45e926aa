"""`hub tui` driven by Textual's pilot, against the real hub through the client's transport."""

from __future__ import annotations

import asyncio
import queue
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.core.wsgi import get_wsgi_application
from envhub.cli.tui.app import Browser
from envhub.client import HubClient
from envhub.client.connection import Retry
from envhub.packaging.saved.metadata import write_results
from envhub.protocol.runs import RunState
from textual.pilot import Pilot
from textual.widgets import Collapsible, DataTable, Static

from hub.accounts.models import User
from hub.evals.models import Evaluation
from hub.runs.models import Run
from hub.training.services import report_step
from tests.envhub.cli.conftest import URL, Cli
from tests.factories.accounts import make_token
from tests.factories.evals import create_hosted, make_config, make_failure, make_record, start, store
from tests.factories.training_runs import create_run, step_report
from tests.factories.training_runs import start as start_training

pytestmark = pytest.mark.django_db
CALL = {"name": "add", "arguments": '{"a": 1}'}
TOOLS = [
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [{"id": "c", "function": {"name": "add", "arguments": '{"a": 1}'}}],
    },
    {"role": "tool", "tool_call_id": "c", "content": "the sum is [red]2[/red]\x1b[2J"},
    {"role": "assistant", "content": "needle"},
]


class Terminal(httpx.BaseTransport):
    """The application in a thread of its own; the hub answers here, where the test's transaction is."""

    def __init__(self, user: User) -> None:
        self._hub = httpx.WSGITransport(get_wsgi_application())
        self._token = make_token(user)
        self._jobs: queue.Queue[tuple[Callable[[], Any], Future[Any]]] = queue.Queue()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """By the thread of the test."""
        request.read()
        return self.here(lambda: self._answer(request))  # type: ignore[no-any-return]

    def _answer(self, request: httpx.Request) -> httpx.Response:
        found = self._hub.handle_request(request)
        return httpx.Response(found.status_code, headers=found.headers, content=b"".join(found.stream))  # type: ignore[arg-type]

    def here(self, job: Callable[[], Any]) -> Any:
        """What the application's thread wants done beside the database."""
        future: Future[Any] = Future()
        self._jobs.put((job, future))
        return future.result(60)

    def drive(self, scene: Callable[[Pilot[None]], Awaitable[None]]) -> None:
        """Run `scene` on a screen of 120 by 40. Raises what it raises."""

        async def play() -> None:
            hub = HubClient(URL, self._token, self, Retry(sleep=lambda _: None))
            async with Browser(hub, Path("outputs/evals")).run_test(size=(120, 40)) as pilot:
                await scene(pilot)

        with ThreadPoolExecutor(1) as pool:
            ended = pool.submit(lambda: asyncio.run(play()))
            while not ended.done():
                try:
                    job, future = self._jobs.get(timeout=0.02)
                except queue.Empty:
                    continue
                future.set_result(job())
            ended.result()


@pytest.fixture
def terminal(cli: Cli) -> Terminal:
    return Terminal(cli.user)


async def until(pilot: Pilot[None], holds: Callable[[], bool]) -> None:
    """Waits until it does: answers of the hub come when they come."""
    end = time.monotonic() + 20
    while True:
        await pilot.pause()
        try:
            if holds():
                return
        except LookupError:
            pass
        assert time.monotonic() < end, [about(pilot) if pilot.app.screen.query("#about") else "", cells(pilot)]
        await asyncio.sleep(0.02)


@pytest.fixture
def evaluation(cli: Cli) -> Evaluation:
    found = create_hosted(cli.user, num_examples=3, rollouts_per_example=1)
    start(found)
    store(found, [make_record(0, completion=TOOLS), make_record(1, 0, 0.25), make_failure(2)])
    return found


def cells(pilot: Pilot[None]) -> list[list[str]]:
    """The table in sight."""
    tables = [one for one in pilot.app.screen.query(DataTable) if one.is_on_screen]
    return [[str(cell) for cell in tables[0].get_row_at(at)] for at in range(tables[0].row_count)] if tables else []


def about(pilot: Pilot[None]) -> str:
    return str(pilot.app.screen.query_one("#about", Static).content)


def folds(pilot: Pilot[None]) -> list[Collapsible]:
    return list(pilot.app.screen.query("#transcript > Collapsible").results(Collapsible))


async def open_first(pilot: Pilot[None]) -> None:
    """From the list of evaluations to a transcript."""
    await until(pilot, lambda: len(cells(pilot)) == 1)
    await pilot.press("enter")
    await until(pilot, lambda: len(cells(pilot)) == 3)
    await pilot.press("enter")
    await until(pilot, lambda: len(folds(pilot)) > 1)


def test_an_evaluation_is_opened_down_to_its_transcript(terminal: Terminal, evaluation: Evaluation) -> None:
    async def scene(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: cells(pilot)[0][:2] == ["alice/tiny-env", "alice/stub"])
        await pilot.press("enter")
        await until(pilot, lambda: len(cells(pilot)) == 3)
        assert [(row[0], row[2]) for row in cells(pilot)] == [("0 · 0", "1"), ("1 · 0", "0.25"), ("2 · 0", "")]
        await pilot.press("enter")
        await until(pilot, lambda: len(folds(pilot)) == 3)
        titles = [" ".join(fold.title.split()) for fold in folds(pilot)]
        assert titles == ["0 user", "1 assistant", "3 assistant"]
        assert "1 → the sum is" in str([fold.title for fold in pilot.app.screen.query(Collapsible)])
        shown = " ".join(str(one.content) for one in pilot.app.screen.query(Static))
        assert "the sum is [red]2[/red][2J" in shown
        assert "\x1b" not in shown

    terminal.drive(scene)


def test_keys_move_among_turns_and_rollouts_and_search_finds(terminal: Terminal, evaluation: Evaluation) -> None:
    async def scene(pilot: Pilot[None]) -> None:
        await open_first(pilot)
        await pilot.press("j")
        assert pilot.app.screen._at == 1  # type: ignore[attr-defined]
        await pilot.press("slash", *"NEEDLE", "enter", "escape")
        assert pilot.app.screen._at == 2  # type: ignore[attr-defined]
        await pilot.press("n")
        await until(pilot, lambda: "rollout 2 · 0, infrastructure: no answer" in about(pilot))
        await pilot.press("K")
        await until(pilot, lambda: "reward 0.250" in about(pilot))

    terminal.drive(scene)


def test_a_long_transcript_is_searched_and_walked_to_its_end(
    terminal: Terminal, evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("envhub.cli.tui.reader.WINDOW", 2)

    async def scene(pilot: Pilot[None]) -> None:
        await open_first(pilot)
        assert "turns 1 to 2 of 3" in about(pilot)
        await pilot.press("slash", *"needle", "enter", "escape")
        await until(pilot, lambda: "turns 3 to 3 of 3" in about(pilot))
        await pilot.press("k")
        await until(pilot, lambda: "turns 1 to 2 of 3" in about(pilot))

    terminal.drive(scene)


def test_a_list_that_is_longer_says_so_and_loads_more(
    terminal: Terminal, evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("envhub.cli.tui.rollouts.PAGE", 2)

    async def scene(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(cells(pilot)) == 1)
        await pilot.press("enter")
        await until(pilot, lambda: "the first 2 rollouts, 0 failed; press m for 2 more" in about(pilot))
        await pilot.press("m")
        await until(pilot, lambda: about(pilot).endswith("3 rollouts, 1 failed"))

    terminal.drive(scene)


def test_what_goes_on_is_followed(terminal: Terminal, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("envhub.cli.tui.app.EVERY_S", 0.1)
    running = create_hosted(cli.user, num_examples=2, rollouts_per_example=1)
    start(running)
    Evaluation.objects.filter(pk=running.pk).update(state=RunState.RUNNING.value)

    async def scene(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: cells(pilot)[0][2:5] == ["running", "", "0 of 2"])
        await asyncio.to_thread(terminal.here, lambda: store(running, [make_record(0, 0, 0.5)]))
        await until(pilot, lambda: cells(pilot)[0][2:5] == ["running", "0.500", "1 of 2"])

    terminal.drive(scene)


def test_a_training_run_shows_its_steps_and_their_rollouts(terminal: Terminal, cli: Cli) -> None:
    training = create_run(cli.user)
    start_training(training)
    for step in (1, 2):
        report_step(training=training, report=step_report(step), guard=lambda: Run.objects.get(pk=training.run_id))

    async def scene(pilot: Pilot[None]) -> None:
        await pilot.press("2")
        await until(pilot, lambda: len(cells(pilot)) == 1)
        await pilot.press("enter")
        await until(pilot, lambda: [row[:2] for row in cells(pilot)] == [["2", "0.5"], ["1", "0.5"]])
        await until(pilot, lambda: "step 2 of 3" in about(pilot))
        await pilot.press("enter")
        await until(pilot, lambda: [row[2] for row in cells(pilot)] == ["1", "0"])

    terminal.drive(scene)


def test_results_of_this_machine_are_read(terminal: Terminal) -> None:
    config = make_config("alice/tiny-env", "gpt-x").model_dump()
    write_results(Path("outputs/evals/tiny-env--gpt-x/1"), config, [make_record(0, 0, 0.75)], base_url="http://x/v1")

    async def scene(pilot: Pilot[None]) -> None:
        await pilot.press("3")
        await until(pilot, lambda: len(cells(pilot)) == 1)
        await pilot.press("enter")
        await until(pilot, lambda: [row[2:5] for row in cells(pilot)] == [["0.75", "1", "question 0"]])

    terminal.drive(scene)


def test_a_hub_that_refuses_is_told_and_ends_nothing(terminal: Terminal, cli: Cli, evaluation: Evaluation) -> None:
    async def scene(pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(cells(pilot)) == 1)
        await asyncio.to_thread(terminal.here, lambda: User.objects.filter(pk=cli.user.pk).update(is_active=False))
        await pilot.press("r")
        await until(pilot, lambda: "token" in str([one.message for one in pilot.app._notifications]))
        assert len(cells(pilot)) == 1

    terminal.drive(scene)


def test_without_a_terminal_it_says_what_to_use_instead(cli: Cli) -> None:
    assert "hub eval list --json" in cli("tui", code=2).stderr


def test_without_the_extra_it_says_what_to_install(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "envhub.cli.tui.app")
    for name in ("textual", "textual.app", "textual.screen", "textual.binding"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setattr("envhub.cli.tui.command.has_terminal", lambda: True)
    assert "pip install 'envhub[tui]'" in cli("tui", code=1).stderr
