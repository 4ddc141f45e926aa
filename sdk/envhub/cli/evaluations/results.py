"""`hub eval push|pull|export`: results in and out, in verifiers' own formats."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from envhub.cli.evaluations.commands import EvaluationId
from envhub.cli.evaluations.files import validated
from envhub.cli.evaluations.summary import page, print_summary
from envhub.cli.terminal.export_format import format_of
from envhub.cli.terminal.owners import owner_option
from envhub.cli.terminal.references import parse
from envhub.cli.terminal.session import JsonFlag, Session, current
from envhub.client.blobs import LocalBlob
from envhub.errors import NotFound, UsageError
from envhub.packaging.index_rows import index_rows
from envhub.packaging.saved.finding import SavedResults, read_saved_results
from envhub.packaging.saved.metadata import env_id, write_results
from envhub.packaging.segments import fitting_segment, positions, read_segment
from envhub.protocol.base import JsonObject
from envhub.protocol.evals.evaluations import (
    INLINE_BYTES,
    EvaluationConfig,
    EvaluationPush,
    EvaluationView,
    SegmentRequest,
)
from envhub.protocol.evals.rollouts import RolloutRecord


def push(
    ctx: typer.Context,
    directory: Annotated[Path, typer.Argument(help="The output directory of vf-eval.", exists=True, file_okay=False)],
    environment: Annotated[
        str | None, typer.Option(help="owner/name[@version] (default: your own of that name).")
    ] = None,
    model: Annotated[str | None, typer.Option("--model", "-m", help="Default: as saved.")] = None,
    name: Annotated[str, typer.Option(help="A name to show in lists.")] = "",
    owner: Annotated[str | None, owner_option("Whose evaluation (default: yours).")] = None,
    json: JsonFlag = False,
) -> None:
    """Upload results made elsewhere (marked self-reported). Uploading the same results again changes nothing."""
    session = current(ctx)
    saved = read_saved_results(directory)
    if saved.torn:
        session.note("warning: the last line is torn (its writer was stopped); it is left out")
    if not saved.records:
        raise UsageError(f"{directory} holds no rollouts")
    view = upload(session, saved, configuration(session, saved, environment, model, name), owner)
    value = {"evaluation": view, "rollouts": len(saved.records), "torn_lines": saved.torn}
    session.show(value, lambda: print_summary(session, view))
    session.note(page(session, view))


def configuration(
    session: Session, saved: SavedResults, environment: str | None, model: str | None, name: str
) -> EvaluationConfig:
    """What was evaluated, from the files and the command line. Raises UsageError."""
    wanted = environment or saved.env_id
    if not wanted:
        raise UsageError("the files do not say which environment they are for", hint="Give --environment owner/name.")
    per_example = max(record.rollout for record in saved.records) + 1
    fields = {
        "environment": str(parse(session, wanted)),
        "model": model or saved.model or "unknown",
        "name": name,
        **saved.settings,
        "rollouts_per_example": max(per_example, int(saved.settings.get("rollouts_per_example") or 1)),
    }
    return validated(fields, "the saved configuration is not usable")


def upload(session: Session, saved: SavedResults, config: EvaluationConfig, owner: str | None = None) -> EvaluationView:
    """Begin, send the segments that the hub lacks, finalize. Idempotent by fingerprint and by rollout.

    Raises UsageError when the environment is absent, or the same files are there as another's or another model's.
    """
    hub = session.hub.evaluations
    request = EvaluationPush(
        environment=config.environment, model=config.model, fingerprint=saved.fingerprint, config=config,
        format=saved.format, metadata=saved.metadata,
    )  # fmt: skip
    try:
        view = hub.push(request, owner or session.configuration.owner)
    except NotFound as error:
        hint = "create it with `hub push FOLDER`; to push results for somebody else's, use --environment OWNER/NAME."
        raise UsageError(error.message, hint=hint) from error
    if (view.environment, view.config["model"]) != (config.environment.partition("@")[0], config.model):
        raise UsageError(
            f"these results already exist, as {view.model} on {view.environment}",
            hint=f"Delete them first: hub eval delete {view.id}",
        )
    if view.state.is_final:
        session.note("unchanged: these results are already there")
        return view
    rest: Sequence[RolloutRecord] = saved.records
    while rest:
        records, content = fitting_segment(rest)
        rest = rest[len(records) :]
        blob = LocalBlob.of(content)
        small = blob.size <= INLINE_BYTES
        if not small:
            session.hub.blobs.ensure([blob], owner=view.owner)
        hub.add_segment(view.id, SegmentRequest(
            sha256=blob.sha256, size=blob.size, content=content if small else None,
            rows=index_rows(records, positions(content)), total_rollouts=len(saved.records),
        ))  # fmt: skip
    return hub.finalize(view.id)


def pull(
    ctx: typer.Context,
    evaluation_id: EvaluationId,
    directory: Annotated[Path | None, typer.Argument(help="Default: outputs/evals/NAME--MODEL/ID.")] = None,
    json: JsonFlag = False,
) -> None:
    """Download all rollouts as verifiers' results.jsonl and metadata.json."""
    session = current(ctx)
    view = session.hub.evaluations.get(evaluation_id)
    target = directory or results_directory(view.config, view.id)
    if (target / "results.jsonl").exists():
        raise UsageError(f"{target} already has results", hint="Choose another directory.")
    records = list(stored_records(session, view.id))
    count = write_results(target, view.config, records, base_url=f"{session.hub.url}/inference/v1")
    value = {"directory": str(target), "rollouts": count}
    session.show(value, lambda: session.out.print(f"{count} rollout{'s'[: count != 1]} -> {target}", markup=False))


def results_directory(config: JsonObject, run: str) -> Path:
    """`outputs/evals/NAME--MODEL/RUN`, where verifiers puts it too."""
    name, model = env_id(config), config["model"].replace("/", "--")
    return Path("outputs") / "evals" / f"{name}--{model}" / run


def stored_records(session: Session, evaluation_id: str) -> Iterator[RolloutRecord]:
    """Every rollout that counts, as an export has them: segments also hold attempts that the hub has passed over."""
    with tempfile.TemporaryDirectory(prefix="hub-eval-") as folder:
        path = session.hub.evaluations.export(evaluation_id, Path(folder) / "all.parquet")
        yield from read_segment(path)


def export(
    ctx: typer.Context,
    evaluation_id: EvaluationId,
    target: Annotated[Path | None, typer.Argument(help="The file to write.", dir_okay=False)] = None,
    kind: Annotated[Literal["parquet", "jsonl"] | None, typer.Option("--format", help="Default: by file name.")] = None,
    min_reward: Annotated[float | None, typer.Option(help="Only rollouts with at least this reward.")] = None,
    max_reward: Annotated[float | None, typer.Option(help="Only rollouts with at most this reward.")] = None,
    label: Annotated[str | None, typer.Option(help="Only rollouts with this label; any: with at least one.")] = None,
    json: JsonFlag = False,
) -> None:
    """Write the rollouts with their labels as one Parquet or JSONL file, for datasets.load_dataset."""
    session = current(ctx)
    chosen = format_of(kind, target, {".parquet": "parquet", ".jsonl": "jsonl"})
    path = target or Path(f"{evaluation_id}.{chosen}")
    session.hub.evaluations.export(
        evaluation_id, path, format=chosen, min_reward=min_reward, max_reward=max_reward, label=label, labels=True
    )
    value = {"file": str(path), "bytes": path.stat().st_size}
    session.show(value, lambda: session.out.print(str(path), markup=False))
