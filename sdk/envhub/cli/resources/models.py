"""`hub model list|add|show|delete|test|import|import-dir|pull`."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path
from typing import Annotated, Literal

import typer

from envhub.cli.terminal import completing
from envhub.cli.terminal.asking import Yes, ask_to_delete
from envhub.cli.terminal.owners import owner_option
from envhub.cli.terminal.progress import transfer
from envhub.cli.terminal.references import model_reference
from envhub.cli.terminal.session import JsonFlag, Session, current
from envhub.cli.terminal.tables import Fit
from envhub.client.directories import files_below, size_of
from envhub.client.outside.endpoints import read_endpoints
from envhub.errors import EnvhubError, UsageError
from envhub.protocol.models.catalog import EndpointKind, EndpointVariant, ModelRequest, ModelTest, ModelView
from envhub.protocol.models.money import dollars
from envhub.protocol.visibility import Visibility

Reference = Annotated[str, typer.Argument(help="owner/name, or name for your own.", autocompletion=completing.models)]

LISTED = Fit(drop=("base", "source", "where", "last error", "serves"), wrap=("needs", "last error"))
SeenBy = Annotated[
    Visibility | None, typer.Option("--visibility", help="Who may call it (default: unchanged; new ones are private).")
]


def list_models(ctx: typer.Context, limit: Annotated[int, typer.Option(min=1)] = 100, json: JsonFlag = False) -> None:
    """List the models that you may use; which can be trained and served here, and what they need."""
    session = current(ctx)
    found = list(islice(session.hub.models.list(), limit))
    rows = [(f"{item.owner}/{item.name}", item.source, item.engine or ", ".join(v.base_url for v in item.variants),
             item.base, item.trainable, item.servable, item.needs, item.last_error) for item in found]  # fmt: skip
    columns = ("model", "source", "where", "base", "trains", "serves", "needs", "last error")
    session.show(found, lambda: session.table(columns, rows, "no models", LISTED))


def add(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="Its name here.")],
    base_url: Annotated[str, typer.Option(help="e.g. https://api.example.com/v1")],
    model: Annotated[str | None, typer.Option("--model", "-m", help="Its name there (default: the same).")] = None,
    kind: Annotated[EndpointKind, typer.Option(help="Which API it speaks.")] = EndpointKind.OPENAI,
    key_stdin: Annotated[bool, typer.Option("--key-stdin", help="Read the API key from standard input.")] = False,
    key_var: Annotated[str | None, typer.Option(help="Read the API key from this environment variable.")] = None,
    header: Annotated[list[str] | None, typer.Option(metavar="<str>", help="Name: value (repeat).")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds for one call.")] = 300.0,
    max_retries: Annotated[int, typer.Option(help="Retries of one call.")] = 3,
    owner: Annotated[str | None, owner_option("Whose model (default: yours).")] = None,
    visibility: SeenBy = None,
    input_price: Annotated[float | None, typer.Option(help="US dollars per million prompt tokens.")] = None,
    output_price: Annotated[float | None, typer.Option(help="US dollars per million output tokens.")] = None,
    test: Annotated[bool, typer.Option("--test/--no-test", help="Call it once before saving.")] = True,
    json: JsonFlag = False,
) -> None:
    """Register an endpoint as a model."""
    if (input_price is None) != (output_price is None):
        raise UsageError(
            "only one of the two prices is given", hint="Pass both --input-price and --output-price, or neither."
        )
    session = current(ctx)
    variant = EndpointVariant(
        kind=kind, base_url=base_url, model=model or name, api_key=_key(session, key_stdin, key_var),
        headers=_headers(header or []), timeout_s=timeout, max_retries=max_retries,
    )  # fmt: skip
    prices = {"input_price": input_price, "output_price": output_price}
    request = ModelRequest(name=name, variants=(variant,), test=test, visibility=visibility, **prices)
    view = session.hub.models.put(owner or session.owner, request)
    session.show(view, lambda: session.out.print(f"registered {view.owner}/{view.name}"))


def _key(session: Session, from_stdin: bool, variable: str | None) -> str | None:
    if from_stdin:
        return sys.stdin.readline().strip() or None
    if variable is None:
        return None
    value = session.environ.get(variable)
    if not value:
        raise UsageError(f"the environment variable {variable} is not set")
    return value


def _headers(given: list[str]) -> dict[str, str]:
    pairs = [text.partition(":") for text in given]
    if bad := [text for text, (_, colon, _) in zip(given, pairs, strict=True) if not colon]:
        raise UsageError(f"{bad[0]!r} is not a header", hint="Write --header 'Name: value'.")
    return {name.strip(): value.strip() for name, _, value in pairs}


def show(ctx: typer.Context, name: Reference, json: JsonFlag = False) -> None:
    """Show a model and its endpoints (without keys)."""
    session = current(ctx)
    view = session.hub.models.get(model_reference(session, name))
    session.show(view, lambda: _print_model(session, view))


def _print_model(session: Session, view: ModelView) -> None:
    session.fields({"model": f"{view.owner}/{view.name}", "source": view.source, "engine": view.engine,
                    "base": view.base, "parameters": view.parameters, "trains here": view.trainable,
                    "serves here": view.servable, "needs": view.needs,
                    "price": _price(view), "visibility": view.visibility,
                    "last error": view.last_error})  # fmt: skip
    rows = [(item.kind, item.base_url, item.model, "key" if item.has_key else "") for item in view.variants]
    if rows:
        session.table(("kind", "address", "model there", ""), rows)


def _price(view: ModelView) -> str:
    if view.input_price is None or view.output_price is None:
        return ""
    return f"{dollars(view.input_price)} in, {dollars(view.output_price)} out, per million tokens"


def delete(ctx: typer.Context, name: Reference, yes: Yes = False, json: JsonFlag = False) -> None:
    """Delete a model."""
    session = current(ctx)
    reference = model_reference(session, name)
    ask_to_delete(session, f"model {reference}", yes=yes)
    session.hub.models.delete(reference)
    session.show({"deleted": reference}, lambda: session.out.print(f"deleted {reference}"))


def call_once(ctx: typer.Context, name: Reference, json: JsonFlag = False) -> None:
    """Call every endpoint of a model once; exit with 1 if one fails."""
    session = current(ctx)
    outcome = session.hub.models.test(model_reference(session, name))
    session.show(outcome, lambda: _print_test(session, outcome))
    if not outcome.ok:
        raise typer.Exit(1)


def _print_test(session: Session, outcome: ModelTest) -> None:
    rows = [("ok" if item.ok else "FAILED", item.base_url, item.seconds, item.message) for item in outcome.variants]
    empty = "ok" if outcome.ok else "FAILED"
    session.table(("", "address", "seconds", "message"), rows, empty, Fit(wrap=("message",)))


def import_endpoints(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="verifiers' endpoints.toml or .py.", exists=True, dir_okay=False)],
    owner: Annotated[str | None, owner_option("Whose models (default: yours).")] = None,
    test: Annotated[bool, typer.Option("--test/--no-test", help="Call each once before saving.")] = True,
    json: JsonFlag = False,
) -> None:
    """Register every endpoint of an endpoints.toml or .py; keys come from the variables that it names."""
    session = current(ctx)
    text, is_python = file.read_text(encoding="utf-8-sig"), file.suffix == ".py"
    requests = read_endpoints(text, session.environ, test=test, is_python=is_python)
    views, failed = [], []
    for request in requests:
        try:
            views.append(session.hub.models.put(owner or session.owner, request))
        except EnvhubError as error:
            session.fail(error)
            failed.append(request.name)
    value = {"imported": views, "failed": failed}
    session.show(value, lambda: session.out.print(f"imported {len(views)} of {len(requests)} models"))
    if failed:
        raise typer.Exit(1)


def import_directory(
    ctx: typer.Context,
    name: Reference,
    directory: Annotated[Path, typer.Argument(help="A Hugging Face model directory.", exists=True, file_okay=False)],
    engine: Annotated[Literal["torch", "vllm"], typer.Option(help="Engine that serves it.")] = "torch",
    visibility: SeenBy = None,
    json: JsonFlag = False,
) -> None:
    """Upload a model directory; a worker serves it."""
    session = current(ctx)
    found = files_below(directory)
    if not found:
        raise UsageError(f"{directory} has no files", hint="Pass the directory that model.save_pretrained(DIR) wrote.")
    with transfer(session, "uploading", size_of(found)) as moved:
        view = session.hub.models.put_directory(
            model_reference(session, name), directory, engine=engine, visibility=visibility, progress=moved
        )
    session.show(view, lambda: session.out.print(f"imported {view.owner}/{view.name}"))


def pull(
    ctx: typer.Context,
    name: Reference,
    directory: Annotated[Path | None, typer.Argument(help="Default: ./NAME.", file_okay=False)] = None,
    json: JsonFlag = False,
) -> None:
    """Download the files of a model or an adapter, e.g. for your own engine. Rerun it to resume a download."""
    session = current(ctx)
    reference = model_reference(session, name)
    target = directory or Path(reference.rpartition("/")[2])
    found = session.hub.models.files(reference)
    total = sum(blob.size for blob in found.files.values())
    others = set(_files_below(target)) - set(found.files)
    if others:
        hint = "Name another directory: an engine would load both."
        raise UsageError(f"{target} has files of something else: {', '.join(sorted(others)[:3])}", hint=hint)
    with transfer(session, "downloading", total) as moved:
        session.hub.models.get_directory(found, target, moved)
    value = {"model": reference, "directory": str(target), "files": sorted(found.files), "base": found.base}
    over = f", an adapter of {found.base}" if found.base else ""
    session.show(value, lambda: session.out.print(f"{reference}{over} -> {target}"))


def _files_below(directory: Path) -> list[str]:
    """Relative names; those of an interrupted download are hidden and do not count."""
    paths = (path for path in directory.rglob("*") if path.is_file() and not path.name.startswith("."))
    return [path.relative_to(directory).as_posix() for path in paths]
