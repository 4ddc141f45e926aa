"""`hub train run|resume`: submits a training TOML and follows the run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tomlkit
import typer

from envhub.cli.terminal.owners import owner_option
from envhub.cli.terminal.progress import transfer
from envhub.cli.terminal.session import JsonFlag, Session, current
from envhub.cli.training.check import TrainFile
from envhub.cli.training.commands import TrainingId
from envhub.cli.training.files import TrainingFile, parse_training, read_training_file, tell_warnings
from envhub.cli.training.follow import follow
from envhub.cli.training.summary import page, print_training
from envhub.client.directories import files_below, size_of
from envhub.errors import UsageError
from envhub.protocol.runs import RunState
from envhub.protocol.training.runs import TrainingRequest, TrainingRunView
from envhub.protocol.visibility import Visibility

Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Follow the run until it ends.")]


def run(
    ctx: typer.Context,
    file: TrainFile,
    owner: Annotated[str | None, owner_option("Whose run (default: yours).")] = None,
    visibility: Annotated[
        Visibility | None, typer.Option(help="Who may see the run and the models it produces.")
    ] = None,
    wait: Wait = True,
    json: JsonFlag = False,
) -> None:
    """Train a model from a TOML and follow the run."""
    submit(current(ctx), read_training_file(file), owner=owner, visibility=visibility, wait=wait)


def submit(
    session: Session, file: TrainingFile, *, owner: str | None, visibility: Visibility | None, wait: bool
) -> None:
    """Queue the run, then follow it. Exit 1 when it did not succeed."""
    tell_warnings(session, file)
    text = with_uploaded_model(session, file, owner)
    request = TrainingRequest(toml=text, env=file.env, visibility=visibility)
    finish(session, session.hub.training.create(request, owner or session.configuration.owner), wait=wait)


def finish(session: Session, view: TrainingRunView, *, wait: bool) -> None:
    """Follow a queued run to its end. Exit 1 when it did not succeed."""
    session.note(f"training run {view.id}: {view.model} on {', '.join(view.environments)}  {page(session, view)}")
    session.note(f"trace {view.trace_id}")
    ended = follow(session, view) if wait else view
    session.show(ended, lambda: print_training(session, ended) if wait else session.out.print(ended.id))
    if wait and ended.state is not RunState.SUCCEEDED:
        raise typer.Exit(1)


def with_uploaded_model(session: Session, file: TrainingFile, owner: str | None) -> str:
    """The file's text; a `model` that is a directory here is uploaded first and named owner/directory in it."""
    model = file.config.model
    if not model.startswith((".", "/", "~")):
        return file.text
    directory = Path(model).expanduser()
    if not (directory / "config.json").is_file():
        raise UsageError(f"{model} is no model directory", hint="It needs config.json, tokenizer and safetensors.")
    name = directory.resolve().name.lower().replace("_", "-")
    reference = f"{owner or session.owner}/{name}"
    total = size_of(files_below(directory))
    engine = file.config.trainer.engine or "torch"
    with transfer(session, f"uploading {reference}", total) as moved:
        session.hub.models.put_directory(reference, directory, engine=engine, progress=moved)
    document = tomlkit.parse(file.text)
    document["model"] = reference
    text = tomlkit.dumps(document)
    parse_training(text, "the file with its uploaded model")
    return text


def resume(
    ctx: typer.Context,
    training_id: TrainingId,
    step: Annotated[
        int | None,
        typer.Option(
            min=0, help="Continue from the checkpoint of this step instead; later steps and adapters are discarded."
        ),
    ] = None,
    wait: Wait = True,
    json: JsonFlag = False,
) -> None:
    """Continue a stopped or failed run from its newest checkpoint."""
    session = current(ctx)
    finish(session, session.hub.training.resume(training_id, step=step), wait=wait)
