"""The demo's last part: train the tiny model on a sample environment and evaluate the adapter next to its base."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from infra.demo.hub import ROOT, Cli, DemoFailed
from infra.demo.steps import FINAL, MODEL, Say, evaluation_of, follow

CONFIG = ROOT / "environments" / "reverse-text" / "configs" / "train" / "reverse-text.toml"
SHORT_CONFIG = ROOT / "infra" / "demo" / "reverse-text-short.toml"
TASK = {"length": 4}  # what the configuration trains on
SAID_EVERY = 10


def train(cli: Cli, say: Say, *, short: bool) -> Any:
    """The finished training run: an earlier one of the same name, or a new one. Raises DemoFailed."""
    config: Path = SHORT_CONFIG if short else CONFIG
    known = [run for run in cli.run("train", "list") if run["name"] == config.stem]
    run = next((run for run in known if run["state"] not in {"failed", "cancelled"}), None)
    run = run or cli.run("train", "run", str(config), "--no-wait")
    said = 0
    while run["state"] not in FINAL:
        time.sleep(1)
        run = cli.run("train", "show", run["id"])
        if run["step"] >= said + SAID_EVERY:
            said = run["step"]
            say(f"  step {said}/{run['max_steps']}: reward {run['latest']['reward_mean']:.3f}")
    if run["state"] != "succeeded":
        log = cli.popen("train", "logs", run["id"]).communicate()[0]
        raise DemoFailed(f"the training run {run['state']}:\n{log[-3000:]}")
    return run


def evaluate_both(cli: Cli, environment: str, run: Any, say: Say) -> list[Any]:
    """The base model and the adapter on the task that was trained; their evaluations, in this order."""
    adapter = cli.run("train", "show", run["id"])["adapters"][-1]
    models = (MODEL, f"{adapter['owner']}/{adapter['name']}")
    started = [evaluation_of(cli, environment, model, 50, 4, TASK) for model in models]
    return [follow(cli, evaluation, say) for evaluation in started]
