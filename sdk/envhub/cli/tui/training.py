"""One training run: its reward as a curve, its steps as a table."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.widgets import DataTable, Footer, Header, Sparkline, Static

from envhub.cli.tui.listings import of_step
from envhub.cli.tui.rollouts import RolloutScreen
from envhub.cli.tui.screens import EVERY_S, HubScreen, Table
from envhub.cli.tui.texts import plain
from envhub.protocol.training.metrics import StepMetrics
from envhub.protocol.training.runs import TrainingRunView


class TrainingScreen(HubScreen):
    """Enter on a step opens its rollouts."""

    BINDINGS = [Binding("escape,h", "app.pop_screen", "Back"), Binding("r", "reload", "Refresh")]

    def __init__(self, view: TrainingRunView) -> None:
        super().__init__()
        self._view = view
        self._steps: list[StepMetrics] = []  # in order

    def compose(self) -> ComposeResult:
        """Curve and table."""
        yield Header()
        yield Static(id="about")
        yield Sparkline([], id="curve")
        yield Table(
            "step", "reward", "loss", "kl", "entropy", "failed", "tokens/s", id="steps", empty="no step has ended yet"
        )
        yield Footer()

    async def on_mount(self) -> None:
        """Fill it, and again while it goes on."""
        await self.action_reload()
        self.query_one(Table).focus()
        self.set_interval(EVERY_S, self._follow)

    async def _follow(self) -> None:
        if self.is_current and not self._view.state.is_final:
            await self.action_reload()

    async def action_reload(self) -> None:
        """Ask for the run and the steps that are not here yet."""
        training = self.browser.hub.training
        last = self._steps[-1].step if self._steps else None
        view = await self.ask(lambda: training.get(self._view.id))
        more = await self.ask(lambda: list(training.metrics(self._view.id, after_step=last)))
        if view is None or more is None:
            return
        self._view, self._steps = view, [*self._steps, *more]
        self.query_one(Sparkline).data = [one.reward_mean for one in self._steps if one.reward_mean is not None]
        self.query_one(Table).fill([_cells(one) for one in reversed(self._steps)])
        self.query_one("#about", Static).update(plain(_about(view)))

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        """Its rollouts."""
        if not self._steps:
            return
        step = self._steps[len(self._steps) - 1 - event.cursor_row].step
        self.app.push_screen(RolloutScreen(of_step(self.browser.hub, self._view.id, step)))


def _about(view: TrainingRunView) -> str:
    best = f", best reward {view.best_reward:.3f}" if view.best_reward is not None else ""
    waits = f", {view.waiting_for}" if view.waiting_for else ""
    return f"{view.name or view.model}: {view.state.value}, step {view.step} of {view.max_steps}{best}{waits}"


def _cells(step: StepMetrics) -> list[object]:
    values = (step.reward_mean, step.losses.get("loss"), step.kl, step.entropy, step.failed_share, step.tokens_per_s)
    return [plain(step.step), *(plain(value) for value in values)]
