"""`hub eval run --local`: ./environments/NAME with one's own interpreter: no box, no interceptor, self-reported."""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.progress import Progress

from envhub.cli.eval_results import configuration, results_directory, upload
from envhub.cli.eval_summary import print_summary
from envhub.cli.install import active_python
from envhub.cli.local_packages import find_package
from envhub.cli.local_runner import LocalRunner
from envhub.cli.session import Session
from envhub.errors import ApiError, EnvhubError, UsageError
from envhub.packaging.project import Project, read_project
from envhub.packaging.saved_results import read_saved_results
from envhub.packaging.verifiers_metadata import make_metadata, write_results
from envhub.protocol.base import JsonObject
from envhub.protocol.evals import EvaluationConfig, EvaluationView
from envhub.protocol.rollouts import Outcome, RolloutRecord
from envhub.protocol.runner import Described, Group, Hello, Load, Policy


@dataclass(frozen=True)
class LocalOptions:
    """Where model calls go and with which interpreter; empty: the hub's own inference with the login's credentials."""

    base_url: str | None = None
    api_key_var: str | None = None
    python: str | None = None
    skip_upload: bool = False


def package_defaults(target: str) -> JsonObject:
    """[tool.verifiers.eval] of a package under ./environments, and its name as the environment."""
    project = read_project(find_package(target))
    table = project.pyproject.get("tool", {}).get("verifiers", {}).get("eval", {})
    numbers = {key: table[key] for key in ("num_examples", "rollouts_per_example") if isinstance(table.get(key), int)}
    return {**numbers, "environment": project.name}


def run_local(session: Session, configs: Sequence[EvaluationConfig], options: LocalOptions) -> None:
    """Evaluate, write results in verifiers' format, upload. Exit 1 when no rollout could be scored."""
    outcomes = [_one(session, config, options) for config in configs]
    value = [{key: item[key] for key in ("directory", "metadata", "evaluation")} for item in outcomes]
    session.show(value if len(value) > 1 else value[0], lambda: _print_all(session, outcomes))
    if any(not item["scored"] for item in outcomes):
        raise typer.Exit(1)


def _one(session: Session, config: EvaluationConfig, options: LocalOptions) -> JsonObject:
    name = config.environment.rpartition("/")[2].partition("@")[0]
    project = read_project(find_package(name))
    policy = _policy(session, config, options)
    python = options.python or active_python(session) or sys.executable
    log = Path(tempfile.mkdtemp(prefix="hub-eval-")) / "runner.log"  # a failure leaves it there, and no results
    started = time.monotonic()
    records: list[RolloutRecord] = []
    try:
        asyncio.run(_evaluate(session, config, project, policy, python, log, records))
    except KeyboardInterrupt:
        if not records:
            raise
        session.note("interrupted: what was measured so far is kept")
        options = dataclasses.replace(options, skip_upload=True)
    seconds = time.monotonic() - started
    target = results_directory(config, secrets.token_hex(4))
    write_results(target, config, records, base_url=policy.base_url, seconds=seconds)
    shutil.move(log, target / log.name)
    _refresh_latest(target, Path("outputs") / "evals" / project.name)
    view = None if options.skip_upload else _upload(session, target, records)
    scored = sum(record.outcome is not Outcome.FAILED for record in records)
    metadata = make_metadata(config, records, base_url=policy.base_url, seconds=seconds)
    return {"directory": str(target), "metadata": metadata, "evaluation": view, "scored": scored, "records": records}


def _policy(session: Session, config: EvaluationConfig, options: LocalOptions) -> Policy:
    if options.base_url is None:
        key: str | None = session.configuration.token
        if key is None:
            raise UsageError("not logged in", hint="Run `hub login`, or give --base-url and --api-key-var.")
    else:
        key = session.environ.get(options.api_key_var or "", "none")
        if options.api_key_var and options.api_key_var not in session.environ:
            raise UsageError(f"the environment variable {options.api_key_var} is not set")
    base_url = options.base_url or f"{session.configuration.url}/inference/v1"
    return Policy(base_url=base_url.rstrip("/"), model=config.model, api_key=key)


async def _evaluate(
    session: Session,
    config: EvaluationConfig,
    project: Project,
    policy: Policy,
    python: str,
    log: Path,
    records: list[RolloutRecord],
) -> None:
    """Append to `records` as rollouts end, so that an interruption loses none of them."""
    module = project.name.replace("-", "_")
    async with LocalRunner(python, [project.directory], log) as local:
        session.note(f"loading {project.name} with {python}")
        command = Load(
            env_id=project.name, module=module, env_args=config.env_args, taskset=config.taskset,
            harness=config.harness,
        )  # fmt: skip
        hello = await _load(local, command)
        groups = plan(config, policy, hello, await local.describe())
        total = sum(group.n for group in groups)
        session.note(f"verifiers {hello.verifiers}, {hello.env_class}: {total} rollouts")
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


async def _load(local: LocalRunner, command: Load) -> Hello:
    """Raises EnvhubError with a hint for this machine, where nobody has installed the package's dependencies yet."""
    try:
        return await local.load(command)
    except EnvhubError as error:
        if error.code == "verifiers_missing":
            error.hint = (
                f"Install the environment: `hub install {command.env_id}` in your virtual environment "
                "(or `pip install -e .` in its directory); or give the --python that has it."
            )
        raise


def plan(config: EvaluationConfig, policy: Policy, hello: Hello, described: Described) -> list[Group]:
    """Single rollouts, or whole groups where the environment scores an example's rollouts together."""
    split = config.split if config.split in described.splits else next(iter(described.splits), config.split)
    size = described.splits[split].size if split in described.splits else None
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


def _upload(session: Session, target: Path, records: Sequence[RolloutRecord]) -> EvaluationView | None:
    """Upload what was just written (with all that the records hold); a refusal does not lose the results."""
    saved = dataclasses.replace(read_saved_results(target), records=tuple(records))
    if not records:
        return None
    try:
        return upload(session, saved, configuration(session, saved, None, None, ""))
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
        session.table(("metric", "mean"), metadata["avg_metrics"].items())
        for text in sorted({f"{r.failure.kind}: {r.failure.message}" for r in records if r.failure})[:3]:
            session.note(text)
    session.out.print(item["directory"], markup=False)
