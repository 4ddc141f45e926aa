"""`hub train init`: writes a training TOML for environments of the hub, shows it, submits it."""

from __future__ import annotations

import re
import sys
from decimal import Decimal
from importlib import resources
from pathlib import Path
from typing import Annotated

import jinja2
import typer

from envhub.cli.terminal import completing
from envhub.cli.terminal.owners import owner_option
from envhub.cli.terminal.references import parse
from envhub.cli.terminal.session import JsonFlag, Session, current
from envhub.cli.training.files import parse_training, read_training_file
from envhub.cli.training.run import submit
from envhub.errors import UsageError
from envhub.protocol.training.trainer import TrainingMode


def init(
    ctx: typer.Context,
    env: Annotated[list[str], typer.Option("--env", "-e", metavar="<str>", help="owner/name[@version] (repeat).")],
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="The model to train (default: ask).", autocompletion=completing.models),
    ] = None,
    batch: Annotated[int, typer.Option("--batch", help="Rollouts per step.")] = 128,
    rollouts: Annotated[int, typer.Option("--rollouts", help="Rollouts per example.")] = 8,
    steps: Annotated[int, typer.Option("--steps", help="Optimiser steps.")] = 100,
    max_tokens: Annotated[int, typer.Option(help="Maximum tokens in one completion.")] = 512,
    learning_rate: Annotated[float | None, typer.Option(help="Default 1e-4; for --mode full 1e-6.")] = None,
    mode: Annotated[TrainingMode, typer.Option(help="Train an adapter, or all weights.")] = TrainingMode.LORA,
    path: Annotated[Path | None, typer.Option(help="The file (default: configs/train/NAME.toml).")] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Submit without asking.")] = False,
    owner: Annotated[str | None, owner_option("Whose run (default: yours).")] = None,
    submit_it: Annotated[bool, typer.Option("--submit/--no-submit", help="Offer to start the run.")] = True,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Follow the run until it ends.")] = True,
    json: JsonFlag = False,
) -> None:
    """Write a training TOML, show it and submit it."""
    session = current(ctx)
    found = [parse(session, text) for text in env]
    for reference in found:  # a typo is told before anything is written
        session.hub.environments.version(reference.environment, reference.version_or_latest)
    if learning_rate is None:
        learning_rate = 1e-4 if mode is TrainingMode.LORA else 1e-6
    target = path or Path("configs/train") / f"{found[0].name}.toml"
    if target.exists() and not force:
        raise UsageError(f"{target} already exists", hint="Pass --force to overwrite it, or another --path.")
    values = {
        "model": model or _ask_model(session), "environments": [str(reference) for reference in found],
        "batch": batch, "rollouts": rollouts, "steps": steps, "max_tokens": max_tokens, "mode": mode.value,
        "learning_rate": plain_number(learning_rate),
        "eval_interval": max(1, min(100, steps // 4)),
    }  # fmt: skip
    text = render(values)
    parse_training(text, "the file with these options")  # nothing is written that no run takes
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    file = read_training_file(target)
    session.note(f"wrote {target}:\n\n{file.text}")
    if submit_it and (yes or (not session.json and _confirmed())):
        submit(session, file, owner=owner, visibility=None, wait=wait)
        return
    team = f" --team {owner}" if owner else ""
    session.show({"file": str(target)}, lambda: session.out.print(f"next: hub train run {target}{team}", markup=False))


def render(values: dict[str, object]) -> str:
    """The template with its comments in one column."""
    template = resources.files("envhub.cli").joinpath("templates", "training", "train.toml.j2").read_text()
    text = jinja2.Environment(undefined=jinja2.StrictUndefined, autoescape=False).from_string(template).render(values)
    lines = [re.sub(r"^(?!#)(.*?\S) {2,}#", lambda match: f"{match[1]:<33} #", line) for line in text.splitlines()]
    return "\n".join(lines) + "\n"


def plain_number(value: float) -> str:
    """A TOML float, to its last digit: 1e-4 rather than 0.0001."""
    return f"{Decimal(repr(value)):e}"


def _confirmed() -> bool:
    return sys.stdin.isatty() and typer.confirm("Submit this run?", default=True, err=True)


def _ask_model(session: Session) -> str:
    """The model to train, from the terminal; what the hub says can be trained here is proposed."""
    if session.json or not sys.stdin.isatty():
        raise UsageError("no model given", hint="Give --model; `hub model list` says what can be trained here.")
    known = [f"{item.owner}/{item.name}" for item in session.hub.models.list() if item.trainable]
    if known:
        session.note(f"can be trained here: {', '.join(known)}")
    return str(typer.prompt("Model", default=known[0] if known else "hub/tiny", err=True))
