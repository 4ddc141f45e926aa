"""The application: its first screen has evaluations, training runs and results of this machine."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.widgets import DataTable, Footer, Header, TabbedContent, TabPane

from envhub.cli.tui.listings import local_directories, of_directory, of_evaluation
from envhub.cli.tui.rollouts import RolloutScreen
from envhub.cli.tui.screens import EVERY_S, HubScreen, Table
from envhub.cli.tui.texts import plain, state
from envhub.cli.tui.training import TrainingScreen
from envhub.client import HubClient
from envhub.protocol.evals.evaluations import EvaluationView
from envhub.protocol.training.runs import TrainingRunView

NO_EVALUATIONS = "no evaluations yet: hub eval run OWNER/NAME -m MODEL"
NO_TRAINING = "no training runs yet: hub train run train.toml"
NO_LOCAL = "nothing here: hub eval run NAME --local"


class Browser(App[None]):
    """`limit`: of evaluations and of training runs."""

    TITLE = "Environments Hub"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS = [Binding("q", "quit", "Quit")]
    CSS = """
    Table { height: 1fr; }
    #steps { height: 1fr; } #curve { height: 6; margin: 1 2; }
    .turn { margin: 0 1; border: none; padding: 0 0 1 0; } .turn Static { width: 1fr; }
    .result { border-left: thick $surface-lighten-2; padding: 0 0 0 1; margin: 1 0 0 0; }
    #search { dock: bottom; display: none; } #search.shown { display: block; }
    #about { padding: 0 2; color: $text-muted; }
    """

    def __init__(self, hub: HubClient, directory: Path, *, limit: int = 100) -> None:
        super().__init__()
        self.hub, self.directory, self.limit = hub, directory, limit

    def on_mount(self) -> None:
        """Begin."""
        self.push_screen(Home())


class Home(HubScreen):
    """Three lists; Enter opens what the cursor is on."""

    BINDINGS = [
        Binding("1", "tab('evaluations')", "Evaluations"),
        Binding("2", "tab('training')", "Training"),
        Binding("3", "tab('local')", "This machine"),
        Binding("r", "reload", "Refresh"),
    ]

    def __init__(self) -> None:
        super().__init__()
        self._evaluations: list[EvaluationView] = []
        self._training: list[TrainingRunView] = []
        self._local: list[Path] = []

    def compose(self) -> ComposeResult:
        """The tabs."""
        yield Header()
        with TabbedContent(initial="evaluations"):
            with TabPane("Evaluations", id="evaluations"):
                yield Table(
                    "environment",
                    "model",
                    "state",
                    "reward",
                    "rollouts",
                    "created",
                    id="evaluation-table",
                    empty=NO_EVALUATIONS,
                )
            with TabPane("Training", id="training"):
                yield Table(
                    "name",
                    "model",
                    "state",
                    "step",
                    "reward",
                    "best",
                    "created",
                    id="training-table",
                    empty=NO_TRAINING,
                )
            with TabPane("This machine", id="local"):
                yield Table("directory", "written", id="local-table", empty=NO_LOCAL)
        yield Footer()

    async def on_mount(self) -> None:
        """Fill the lists, and again while something runs."""
        await self.action_reload()
        self.query_one("#evaluation-table", Table).focus()
        self.set_interval(EVERY_S, self._follow)

    async def action_reload(self) -> None:
        """Ask for everything again."""
        await self._fill_evaluations()
        await self._fill_training()
        self._local = local_directories(self.browser.directory)
        rows: list[list[object]] = [[plain(path), plain(_written(path))] for path in self._local]
        self.query_one("#local-table", Table).fill(rows)

    async def _follow(self) -> None:
        if not self.is_current:
            return
        if any(not view.state.is_final for view in self._evaluations):
            await self._fill_evaluations()
        if any(not view.state.is_final for view in self._training):
            await self._fill_training()

    async def _fill_evaluations(self) -> None:
        hub, limit = self.browser.hub, self.browser.limit
        found = await self.ask(lambda: [view for view, _ in zip(hub.evaluations.list(), range(limit), strict=False)])
        if found is None:
            return
        self._evaluations = found
        self.query_one("#evaluation-table", Table).fill([_evaluation(view) for view in found])

    async def _fill_training(self) -> None:
        hub, limit = self.browser.hub, self.browser.limit
        found = await self.ask(lambda: [view for view, _ in zip(hub.training.list(), range(limit), strict=False)])
        if found is None:
            return
        self._training = found
        self.query_one("#training-table", Table).fill([_training_run(view) for view in found])

    def action_tab(self, name: str) -> None:
        """Show one of the lists."""
        self.query_one(TabbedContent).active = name
        self.query_one(f"#{name.removesuffix('s')}-table", Table).focus()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Open it."""
        place, hub, table = event.cursor_row, self.browser.hub, event.data_table.id
        if table == "evaluation-table" and place < len(self._evaluations):
            self.app.push_screen(RolloutScreen(of_evaluation(hub, self._evaluations[place])))
        elif table == "training-table" and place < len(self._training):
            self.app.push_screen(TrainingScreen(self._training[place]))
        elif table == "local-table" and place < len(self._local):
            self.app.push_screen(RolloutScreen(of_directory(self._local[place])))


def _evaluation(view: EvaluationView) -> list[object]:
    summary = view.summary
    planned = f" of {summary.planned}" if summary.planned else ""
    reward = f"{summary.reward.mean:.3f}" if summary.reward else ""
    cells = (f"{summary.stored}{planned}", view.created_at)
    return [plain(view.name or view.environment), plain(view.model), state(view.state.value), plain(reward),
            *(plain(one) for one in cells)]  # fmt: skip


def _training_run(view: TrainingRunView) -> list[object]:
    latest = view.latest.reward_mean if view.latest else None
    cells = (f"{view.step} of {view.max_steps}", latest, view.best_reward, view.created_at)
    return [plain(view.name), plain(view.model), state(view.state.value), *(plain(one) for one in cells)]


def _written(path: Path) -> str:
    return f"{datetime.fromtimestamp(path.stat().st_mtime, UTC).astimezone():%Y-%m-%d %H:%M}"
