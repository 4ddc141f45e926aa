"""`hub eval run`: hosted evaluations from flags or a TOML file, and `--local` ones on this machine."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from envhub.cli.environments.install import active_python
from envhub.cli.evaluations.files import Endpoint, merge, read_eval_file, validated
from envhub.cli.evaluations.follow import exit_unless_scored, follow
from envhub.cli.evaluations.local import run_local
from envhub.cli.evaluations.local_evaluations import LocalOptions, local_evaluations
from envhub.cli.evaluations.summary import page, print_summary
from envhub.cli.terminal import completing
from envhub.cli.terminal.option_values import json_object, judge_pairs, replay_of
from envhub.cli.terminal.owners import owner_option
from envhub.cli.terminal.references import model_reference, parse
from envhub.cli.terminal.session import JsonFlag, Session, current
from envhub.errors import EnvhubError, NotFound, UsageError
from envhub.protocol.base import JsonObject, Split
from envhub.protocol.evals.evaluations import EvaluationConfig, EvaluationView
from envhub.protocol.visibility import Visibility


def run(
    ctx: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            help="owner/name[@version], or FILE.toml of eval tables.", autocompletion=completing.environments
        ),
    ],
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            help="owner/name, or name for your own; see `hub model list`.",
            autocompletion=completing.models,
        ),
    ] = None,
    num_examples: Annotated[int | None, typer.Option("--num-examples", "-n", help="-1 for all (default 5).")] = None,
    rollouts: Annotated[int | None, typer.Option("--rollouts-per-example", "-r", help="Default 3.")] = None,
    env_args: Annotated[str | None, typer.Option("--env-args", "-a", help="JSON object for load_environment.")] = None,
    taskset: Annotated[str | None, typer.Option(help="JSON object: the taskset's configuration.")] = None,
    harness: Annotated[str | None, typer.Option(help="JSON object: the harness's configuration.")] = None,
    sampling: Annotated[str | None, typer.Option("--sampling", "-S", help="JSON object: temperature, ...")] = None,
    temperature: Annotated[float | None, typer.Option("--temperature", "-T", help="Sampling temperature.")] = None,
    max_tokens: Annotated[int | None, typer.Option("--max-tokens", "-t", help="Maximum tokens in one answer.")] = None,
    concurrency: Annotated[int | None, typer.Option("--concurrency", "-c", help="Rollouts in flight.")] = None,
    max_retries: Annotated[int | None, typer.Option(help="Retries of a rollout after infrastructure failures.")] = None,
    timeout: Annotated[float | None, typer.Option(help="Seconds for one rollout.")] = None,
    state_columns: Annotated[
        str | None, typer.Option("--state-columns", "-C", help="State columns to keep: a,b.")
    ] = None,
    split: Annotated[Split | None, typer.Option(help="Which examples (default eval).")] = None,
    seed: Annotated[int | None, typer.Option(help="Passed to the sampler.")] = None,
    name: Annotated[str | None, typer.Option(help="A name to show in lists.")] = None,
    judge: Annotated[
        list[str] | None,
        typer.Option(metavar="<str>", help="NAME=owner/model for the environment's judge; NAME * is any (repeat)."),
    ] = None,
    secret: Annotated[
        list[str] | None, typer.Option(metavar="<str>", help="Grant this secret to the run (repeat).")
    ] = None,
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="<str>", help="host:port the box may reach (repeat).")
    ] = None,
    visibility: Annotated[Visibility | None, typer.Option(help="Who may see the evaluation.")] = None,
    replay: Annotated[
        str | None,
        typer.Option(
            metavar="EVAL/EXAMPLE/ROLLOUT/CALLS",
            help="Begin each rollout with this many model calls of a stored one (of a training run's: "
            "training:RUN/STEP/ROLLOUT/CALLS). `hub eval replay` and `hub train replay` fill in the rest.",
        ),
    ] = None,
    owner: Annotated[str | None, owner_option("Whose evaluation (default: yours).")] = None,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Wait for the result.")] = True,
    local: Annotated[
        bool, typer.Option("--local", help="Run ./environments/NAME (or the installed package) on this machine.")
    ] = False,
    base_url: Annotated[str | None, typer.Option("--base-url", "-b", help="Local: another endpoint.")] = None,
    api_key_var: Annotated[
        str | None, typer.Option("--api-key-var", "-k", help="Local: variable with its API key.")
    ] = None,
    skip_upload: Annotated[bool, typer.Option("--skip-upload", help="Local: do not upload the results.")] = False,
    python: Annotated[str | None, typer.Option(help="Local: the interpreter (default: the active one).")] = None,
    json: JsonFlag = False,
) -> None:
    """Evaluate a model on an environment, in the hub's sandbox (or --local, on this machine)."""
    session = current(ctx)
    given: JsonObject = {
        "model": model, "num_examples": num_examples, "rollouts_per_example": rollouts,
        "env_args": json_object("--env-args", env_args), "taskset": json_object("--taskset", taskset),
        "harness": json_object("--harness", harness),
        "sampling": _sampling(sampling, temperature=temperature, max_tokens=max_tokens),
        "concurrency": concurrency, "max_retries": max_retries, "timeout_s": timeout, "split": split, "seed": seed,
        "name": name, "state_columns": _words(state_columns), "judges": judge_pairs(judge), "secrets": secret or None,
        "allow_hosts": allow_host or None, "visibility": visibility, "replay": replay_of(replay),
    }  # fmt: skip
    fields = {key: value for key, value in given.items() if value is not None}
    from_file = target.endswith(".toml")
    if local:
        interpreter = python or active_python(session) or sys.executable
        options = LocalOptions(interpreter, Endpoint(base_url, api_key_var), skip_upload, owner)
        _need_model(target, fields)
        run_local(session, local_evaluations(session, target, fields, options), from_file=from_file)
        return
    if base_url or api_key_var or skip_upload or python:
        raise UsageError("--base-url, --api-key-var, --skip-upload and --python require --local")
    start_all(session, configurations(session, target, fields), owner=owner, wait=wait, from_file=from_file)


def _need_model(target: str, fields: JsonObject) -> None:
    if "model" not in fields and not target.endswith(".toml"):
        raise UsageError("no model given", hint="Pass -m owner/model; `hub model list` shows the models.")


def configurations(session: Session, target: str, fields: JsonObject) -> list[EvaluationConfig]:
    """The evaluations that the command line means; flags win over a file's values. Raises UsageError."""
    if target.endswith(".toml"):
        found = read_eval_file(Path(target), fields)
        if found.ignored:
            session.note(f"note: without effect here: {', '.join(found.ignored)}")
        return [_named(session, validated(merge(config.model_dump(), fields))) for config in found.configs]
    _need_model(target, fields)
    reference = parse(session, target)
    defaults = session.hub.environments.version(reference.environment, reference.version_or_latest).eval_defaults
    own = {key: defaults[key] for key in ("num_examples", "rollouts_per_example") if isinstance(defaults.get(key), int)}
    return [_named(session, validated({**own, **fields, "environment": str(reference)}))]


def _named(session: Session, config: EvaluationConfig) -> EvaluationConfig:
    """Environment and models by their full names: a bare one is the caller's own."""
    judges = {name: model_reference(session, model) for name, model in config.judges.items()}
    environment, model = str(parse(session, config.environment)), model_reference(session, config.model)
    return config.model_copy(update={"environment": environment, "model": model, "judges": judges})


def start_all(
    session: Session,
    configs: Sequence[EvaluationConfig],
    *,
    owner: str | None = None,
    wait: bool,
    from_file: bool = False,
) -> None:
    """Queue every evaluation, then follow them in order. Exit 1 when one did not succeed, or scored no rollout.

    As JSON, those of a file are a list, however many there are.
    """
    if len(configs) > 1:
        _check_names(session, configs)
    started: list[EvaluationView] = []
    for config in configs:
        started.append(_start(session, config, owner or session.configuration.owner, started))
    ended = [follow(session, view) for view in started] if wait else started
    session.show(ended if from_file else ended[0], lambda: _print_all(session, ended, done=wait))
    if wait:
        exit_unless_scored(ended)


def _check_names(session: Session, configs: Sequence[EvaluationConfig]) -> None:
    """Raises NotFound, before the first of several evaluations is queued."""
    for environment in sorted({config.environment for config in configs}):
        reference = parse(session, environment)
        session.hub.environments.version(reference.environment, reference.version_or_latest)
    for model in sorted({model for config in configs for model in (config.model, *config.judges.values())}):
        try:
            session.hub.models.get(model)
        except NotFound as error:
            _hint_at_registering(session, error, model)
            raise


def _start(
    session: Session, config: EvaluationConfig, owner: str | None, before: Sequence[EvaluationView]
) -> EvaluationView:
    """Queue one and say which it is. An error names those that were queued `before`."""
    try:
        view = session.hub.evaluations.create(config, owner)
    except EnvhubError as error:
        _hint_at_registering(session, error, config.model)
        if before:
            commands = ", ".join(f"`hub eval cancel {view.id}`" for view in before)
            error.hint = f"{error.hint}\nQueued already: {commands}".strip()
        raise
    session.note(f"evaluation {view.id}: {view.environment} with {view.model}  {page(session, view)}")
    session.note(f"trace {view.trace_id}")
    return view


def _hint_at_registering(session: Session, error: EnvhubError, model: str) -> None:
    """An unknown model comes with the command that registers it."""
    if error.code == "model_not_found" and model in error.message:
        owner, _, name = model.rpartition("/")
        there = "" if owner == session.owner else f" -m {model}"
        error.hint += f"; `hub model add {name.lower()} --base-url URL{there}` registers an endpoint"


def _print_all(session: Session, views: Sequence[EvaluationView], *, done: bool) -> None:
    for view in views:
        if done:
            print_summary(session, view)
        else:
            session.out.print(view.id)


def _sampling(text: str | None, **named: float | None) -> JsonObject | None:
    """--sampling with --temperature and --max-tokens in it. Raises UsageError for a key that is given twice."""
    given = {key: value for key, value in named.items() if value is not None}
    table = json_object("--sampling", text)
    if table and (twice := sorted(table.keys() & given)):
        flags = " and ".join(f"--{key.replace('_', '-')}" for key in twice)
        raise UsageError(f"--sampling holds {', '.join(twice)} already", hint=f"Leave out {flags}, or that key.")
    return {**(table or {}), **given} if given else table


def _words(text: str | None) -> list[str] | None:
    return None if text is None else [word for word in text.replace(",", " ").split() if word]
