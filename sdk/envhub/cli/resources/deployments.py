"""`hub deploy create|list|delete`: models and adapters behind /inference/v1."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Literal

import typer

from envhub.cli.terminal import completing
from envhub.cli.terminal.asking import Yes, ask_to_delete
from envhub.cli.terminal.owners import OnlyOwner
from envhub.cli.terminal.references import model_reference
from envhub.cli.terminal.session import JsonFlag, current
from envhub.cli.terminal.short_ids import id_in
from envhub.cli.terminal.tables import Fit
from envhub.errors import UsageError
from envhub.protocol.models.deployments import DRAIN_SECONDS, DeploymentRequest, DeploymentView


def create(
    ctx: typer.Context,
    model: Annotated[
        str,
        typer.Argument(
            help="owner/name of an adapter or model, or name for your own.", autocompletion=completing.models
        ),
    ],
    idle: Annotated[float, typer.Option(help="Unload it after this many seconds without a request.")] = 900.0,
    engine: Annotated[
        Literal["torch", "vllm"] | None, typer.Option(help="Engine that serves it (default: the model's own).")
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option(min=1, max=64, help="GPUs of one host to split it over (default: as few as can hold it)."),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Serve a model or an adapter behind the hub's OpenAI-compatible address."""
    session = current(ctx)
    request = DeploymentRequest(model=model_reference(session, model), idle_seconds=idle, engine=engine, gpus=gpus)
    view = session.hub.deployments.create(request)
    session.show(view, lambda: session.out.print(
        f"{view.model}: {deployment_state(view)}\ncall it: {session.hub.url}/inference/v1 with model {view.model}",
        markup=False,
    ))  # fmt: skip


LISTED = Fit(drop=("tokens in", "tokens out", "base", "last used", "requests"), wrap=("state",))


def list_deployments(
    ctx: typer.Context,
    owner: OnlyOwner = None,
    limit: Annotated[int, typer.Option(min=1)] = 30,
    json: JsonFlag = False,
) -> None:
    """List deployments, newest first."""
    session = current(ctx)
    found = list(islice(session.hub.deployments.list(owner=owner), limit))
    rows = [(item.id, item.model, item.base, deployment_state(item), item.usage.requests, item.usage.prompt_tokens,
             item.usage.completion_tokens, item.last_used_at) for item in found]  # fmt: skip
    columns = ("id", "model", "base", "state", "requests", "tokens in", "tokens out", "last used")
    session.show(found, lambda: session.table(columns, rows, "no deployments", LISTED))


def delete(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="The deployment's id (the first characters are enough), or its model.")],
    yes: Yes = False,
    json: JsonFlag = False,
) -> None:
    """Stop serving a model; the model is kept."""
    session = current(ctx)
    beginning = id_in(name)
    found = [
        item
        for item in session.hub.deployments.list()
        if name in {item.model, item.model.split("/")[1]} or (beginning and item.id.startswith(beginning))
    ]
    exact = [item for item in found if name in {item.id, item.model}] or found
    if len(exact) != 1:
        problem = "several deployments are" if exact else "no deployment is"
        raise UsageError(f"{problem} called {name!r}", hint="`hub deploy list` shows them.")
    ask_to_delete(session, f"the deployment of {exact[0].model}", yes=yes)
    session.hub.deployments.delete(exact[0].id)
    minutes = f"{DRAIN_SECONDS / 60:.0f} minutes"
    session.show({"deleted": exact[0].id}, lambda: session.out.print(
        f"{exact[0].model} takes no new requests; answers under way have {minutes} to end, then its engine is let go "
        "(`hub run list --kind serve`)"
    ))  # fmt: skip


def deployment_state(view: DeploymentView) -> str:
    """The state of its run, with what it waits for; "unloaded" without one."""
    if view.failure:
        return f"failed: {view.failure.message}"
    if view.state is None or view.state.is_final:
        return "unloaded (the next request loads it)"
    return f"{view.state} ({view.waiting_for})" if view.waiting_for else str(view.state)
