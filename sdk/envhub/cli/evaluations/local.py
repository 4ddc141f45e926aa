"""`hub eval run --local`: ./environments/NAME with one's own interpreter: no box, no interceptor, self-reported."""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import typer
from rich.progress import Progress

from envhub.cli.evaluations.local_evaluations import LocalEvaluation, policy_of
from envhub.cli.evaluations.local_runner import LocalRunner
from envhub.cli.evaluations.results import configuration, results_directory, upload
from envhub.cli.evaluations.summary import print_summary
from envhub.cli.terminal.session import Session
from envhub.errors import ApiError, ConnectionFailed, EnvhubError, UsageError
from envhub.packaging.saved.finding import read_saved_results
from envhub.packaging.saved.metadata import make_metadata, write_results
from envhub.protocol.base import JsonObject
from envhub.protocol.evals.evaluations import EvaluationConfig, EvaluationView
from envhub.protocol.evals.rollouts import Outcome, RolloutRecord
from envhub.protocol.runner import Described, Group, Hello, Load, Policy

SANDBOXES = "Its sandboxes can come from the hub: hub sandbox serve -- hub eval run ... --local"


def run_local(session: Session, evaluations: Sequence[LocalEvaluation], *, from_file: bool = False) -> None:
    """Evaluate, write results in verifiers' format, upload. Of several, one that fails does not keep the others.

    Exit 1 when one failed, or no rollout of one could be scored. As JSON, those of a file are a list, however many.
    """
    outcomes: list[JsonObject] = []
    try:
        for evaluation in evaluations:
            try:
                outcomes.append(_one(session, evaluation))
            except EnvhubError as error:
                if len(evaluations) == 1:
                    raise
                session.note(f"{evaluation.package.name} was not evaluated:")
                session.fail(error)
    finally:  # an interruption hides nothing that is finished
        if outcomes:
            value = [{key: item[key] for key in ("directory", "metadata", "evaluation")} for item in outcomes]
            session.show(value if from_file else value[0], lambda: _print_all(session, outcomes))
    if len(outcomes) < len(evaluations) or any(not item["scored"] for item in outcomes):
        raise typer.Exit(1)


def _one(session: Session, evaluation: LocalEvaluation) -> JsonObject:
    policy = policy_of(session, evaluation)
    config = evaluation.config.model_copy(update={"model": policy.model})
    log = Path(tempfile.mkdtemp(prefix="hub-eval-")) / "runner.log"  # a failure leaves it there, and no results
    started = time.monotonic()
    records: list[RolloutRecord] = []
    skip_upload = evaluation.options.skip_upload
    try:
        asyncio.run(_evaluate(session, evaluation, policy, log, records))
    except KeyboardInterrupt:
        if not records:
            raise
        session.note("interrupted: what was measured so far is kept")
        skip_upload = True
    seconds = time.monotonic() - started
    asked = config.model_dump(mode="json")
    target = results_directory(asked, secrets.token_hex(4))
    write_results(target, asked, records, base_url=policy.base_url, seconds=seconds)
    shutil.move(log, target / log.name)
    _refresh_latest(target, Path("outputs") / "evals" / evaluation.package.name)
    view = None if skip_upload else _upload(session, evaluation, target, records)
    scored = sum(record.outcome is not Outcome.FAILED for record in records)
    metadata = make_metadata(asked, records, base_url=policy.base_url, seconds=seconds)
    return {"directory": str(target), "metadata": metadata, "evaluation": view, "scored": scored, "records": records}


async def _evaluate(
    session: Session, evaluation: LocalEvaluation, policy: Policy, log: Path, records: list[RolloutRecord]
) -> None:
    """Append to `records` as rollouts end, so that an interruption loses none of them."""
    config, package, python = evaluation.config, evaluation.package, evaluation.options.python
    async with LocalRunner(python, package.paths, log) as local:
        session.note(f"loading {package.name} with {python}")
        command = Load(
            env_id=package.name, module=package.module, env_args=config.env_args,
            taskset=config.taskset, harness=config.harness,
        )  # fmt: skip
        hello = await load_here(local, command, session.hub.url)
        groups = plan(config, policy, hello, await local.describe())
        total = sum(group.n for group in groups)
        session.note(f"verifiers {hello.verifiers}, {hello.env_class}: {total} rollout{'s'[: total != 1]}")
        with Progress(console=session.err, transient=True, disable=session.json) as bar:
            task = bar.add_task("rollouts", total=total)
            try:
                async for record in local.rollouts(groups, in_flight=config.concurrency):
                    records.append(record)
                    bar.advance(task)
            except EnvhubError as error:
                if not records:
                    raise
                session.fail(error)  # what was measured so far is kept


def wants_sandboxes(message: str) -> bool:
    """Whether prime-sandboxes says that it knows no service."""
    return "PRIME_API_KEY" in message


async def load_here(local: LocalRunner, command: Load, hub: str) -> Hello:
    """Raises EnvhubError with a hint for this machine: no box, no run's log, and nobody has installed dependencies."""
    try:
        return await local.load(command)
    except EnvhubError as error:
        if error.code == "verifiers_missing" or (error.code == "import_error" and "No module named" in error.message):
            error.hint = (
                f"Install the environment: `hub install {command.env_id}` in your virtual environment "
                "(or `pip install -e .` in its directory); or pass the --python that has it."
            )
            if f"No module named '{command.module}'" in error.message:
                error.hint += f' If its module is not called {command.module}, set [tool.envhub] module = "...".'
        elif error.code == "dataset_needs_network" or "huggingface_hub" in error.message:
            error.message = error.message.replace("from the sandbox", "from this machine")
            error.hint = f"The hub's own data sets are found with HF_ENDPOINT={hub}/hf and an API token in HF_TOKEN."
        elif wants_sandboxes(error.message):
            error.hint = SANDBOXES
        elif error.code == "load_failed":
            error.hint = ""
        raise


def plan(config: EvaluationConfig, policy: Policy, hello: Hello, described: Described) -> list[Group]:
    """Single rollouts, or whole groups where the environment scores an example's rollouts together.

    Raises EnvhubError (`no_examples`), UsageError.
    """
    split = config.split if config.split in described.splits else next(iter(described.splits), config.split)
    size = described.splits[split].size if split in described.splits else 0
    if size == 0:
        hint = "Give it the arguments that choose its data (--env-args, --taskset), or look at what it loads."
        raise EnvhubError(f"{config.environment} has no examples", code="no_examples", hint=hint)
    wanted = config.num_examples if config.num_examples >= 0 else size
    if wanted is None:
        raise UsageError("the data set's size is not known", hint="Give -n with the number of examples.")
    count = wanted if size is None else min(wanted, size)
    whole = config.rollouts_per_example
    step = whole if hello.requires_group else 1
    return [
        Group(
            id=f"{example}-{first}", example=example, split="train" if split == "train" else "eval", first_index=first,
            n=step, policy=policy, sampling=config.sampling, seed=config.seed, deadline_s=config.timeout_s,
            state_columns=config.state_columns, max_retries=config.max_retries,
        )
        for example in range(count)
        for first in range(0, whole, step)
    ]  # fmt: skip


def _refresh_latest(target: Path, latest: Path) -> None:
    """The last results of an environment also lie at outputs/evals/NAME/, whatever the model and the run."""
    latest.mkdir(parents=True, exist_ok=True)
    for name in ("results.jsonl", "metadata.json"):
        shutil.copyfile(target / name, latest / f".{name}.partial")
        (latest / f".{name}.partial").replace(latest / name)


def _upload(
    session: Session, evaluation: LocalEvaluation, target: Path, records: Sequence[RolloutRecord]
) -> EvaluationView | None:
    """Upload what was just written (with all that the records hold). If that fails, the files are still there."""
    if not records:
        return None
    saved = dataclasses.replace(read_saved_results(target), records=tuple(records))
    wanted = evaluation.config
    try:
        config = configuration(session, saved, evaluation.package.reference, None, wanted.name)
        return upload(
            session, saved, config.model_copy(update={"visibility": wanted.visibility}), evaluation.options.owner
        )
    except ConnectionFailed as error:
        session.note(f"not uploaded: {error.message}")
        session.note(f"hint: `hub eval push {target}` once it can be reached; or give --skip-upload")
        return None
    except (ApiError, UsageError) as error:
        session.note(f"not uploaded: {error.message}")
        session.note(f"hint: `hub push {saved.env_id}`, then `hub eval push {target}`; or give --skip-upload")
        return None


def _print_all(session: Session, outcomes: Sequence[JsonObject]) -> None:
    for item in outcomes:
        _print(session, item)


def _print(session: Session, item: JsonObject) -> None:
    if item["evaluation"] is not None:
        print_summary(session, item["evaluation"])
    else:
        metadata, records = item["metadata"], item["records"]
        failed = len(records) - item["scored"]
        session.fields({
            "environment": metadata["env_id"], "model": metadata["model"],
            "reward": metadata["avg_reward"] if item["scored"] else "-",
            "coverage": f"{item['scored']}/{len(records)} scored" + (f" ({failed} failed)" if failed else ""),
            "pass@k": "  ".join(f"{k}: {value:.3g}" for k, value in metadata["pass_at_k"].items()),
        })  # fmt: skip
        if metadata["avg_metrics"]:
            session.table(("metric", "mean"), metadata["avg_metrics"].items())
        for text in sorted({f"{r.failure.kind}: {r.failure.message}" for r in records if r.failure})[:3]:
            session.note(text)
    if any(wants_sandboxes(record.failure.message) for record in item["records"] if record.failure):
        session.note(f"hint: {SANDBOXES}")
    session.out.print(item["directory"], markup=False)
