"""Entry point of `hub`: the table of all commands, and errors into exit codes (1 failed, 2 usage)."""

from __future__ import annotations

import os
import sys
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from envhub import __version__
from envhub.cli.command_trace import command_span
from envhub.cli.lazy_group import LazyGroup, Table
from envhub.cli.session import Session, current
from envhub.errors import EnvhubError, UsageError
from envhub.protocol.toml_values import in_words, toml_path

# command -> "module:function" in this package; a nested table is a group, its "" the group's help
COMMANDS: Table = {
    "login": "login:login",
    "logout": "login:logout",
    "whoami": "login:whoami",
    "usage": "usage:usage",
    "config": "login:config",
    "completion": "completion:completion",
    "init": "init:init",
    "push": "push:push",
    "pull": "install:pull",
    "install": "install:install",
    "env": {
        "": "Environments and their versions.",
        "list": "environments:list_environments",
        "info": "environments:info",
        "versions": "environments:versions",
        "files": "environments:files",
        "init": "init:init",
        "push": "push:push",
        "pull": "install:pull",
        "install": "install:install",
        "set": "environments:set_properties",
        "yank": "environments:yank",
        "unyank": "environments:unyank",
        "check": "env_check:check",
        "rebuild": "environments:rebuild",
        "delete": "environments:delete",
    },
    "eval": {
        "": "Evaluations: run, watch, push, pull, export.",
        "run": "eval_run:run",
        "list": "evaluations:list_evaluations",
        "show": "evaluations:show",
        "rollouts": "evaluations:rollouts",
        "compare": "eval_compare:compare",
        "leaderboard": "eval_leaderboard:leaderboard",
        "logs": "evaluations:logs",
        "cancel": "evaluations:cancel",
        "resume": "evaluations:resume",
        "push": "eval_results:push",
        "pull": "eval_results:pull",
        "export": "eval_results:export",
        "set": "evaluations:set_visibility",
        "delete": "evaluations:delete",
    },
    "train": {
        "": "Training: a TOML in, a better model out.",
        "init": "train_init:init",
        "check": "train_check:check",
        "run": "train_run:run",
        "list": "training:list_training",
        "show": "training:show",
        "logs": "training:logs",
        "metrics": "training:metrics",
        "rollouts": "train_rollouts:rollouts",
        "checkpoints": "training:checkpoints",
        "stop": "training:stop",
        "resume": "train_run:resume",
        "export": "training:export",
        "set": "training:set_visibility",
        "delete": "training:delete",
    },
    "deploy": {
        "": "Deployments: trained adapters and models behind an OpenAI-compatible address.",
        "create": "deployments:create",
        "list": "deployments:list_deployments",
        "delete": "deployments:delete",
    },
    "sandbox": {
        "": "Sandboxes: machines of their own for what you run in them.",
        "create": "sandboxes:create",
        "list": "sandboxes:list_sandboxes",
        "show": "sandboxes:show",
        "exec": "sandbox_exec:execute",
        "run": "sandbox_exec:run",
        "shell": "sandbox_shell:shell",
        "upload": "sandbox_files:upload",
        "download": "sandbox_files:download",
        "logs": "sandbox_exec:logs",
        "ports": "sandboxes:ports",
        "delete": "sandboxes:delete",
    },
    "run": {
        "": "Runs: queued pieces of work (build, eval, train, serve, sandbox).",
        "list": "runs:list_runs",
        "show": "runs:show",
        "logs": "runs:logs",
        "cancel": "runs:cancel",
        "sandboxes": "runs:sandboxes",
    },
    "model": {
        "": "Models: registered endpoints and uploaded model directories.",
        "list": "models:list_models",
        "add": "models:add",
        "show": "models:show",
        "delete": "models:delete",
        "test": "models:call_once",
        "import": "models:import_endpoints",
        "import-dir": "models:import_directory",
    },
    "team": {
        "": "Teams: members who own things together.",
        "create": "teams:create",
        "list": "teams:list_teams",
        "show": "teams:show",
        "rename": "teams:rename",
        "invite": "teams:invite",
        "revoke": "teams:revoke",
        "join": "teams:join",
        "add": "teams:add",
        "role": "teams:set_role",
        "remove": "teams:remove",
        "leave": "teams:leave",
        "delete": "teams:delete",
        "use": "teams:use",
    },
    "secret": {
        "": "Secrets of an owner; granted to a run by name with --secret.",
        "list": "secrets:list_secrets",
        "set": "secrets:set_secret",
        "delete": "secrets:delete",
    },
    "data": {
        "": "Data sets that boxes load: read through, or added by hand.",
        "list": "data:list_data",
        "add": "data:add",
        "refresh": "data:refresh",
        "delete": "data:delete",
    },
    "image": {
        "": "Images of sandboxes: added by hand, or pinned when a worker pulled them.",
        "list": "images:list_images",
        "add": "images:add",
        "build": "images:build",
        "delete": "images:delete",
    },
    "bundle": {
        "": "Bundles: a version with all that it runs with, for a hub without a network.",
        "export": "bundles:export",
        "import": "bundles:import_bundle",
        "inspect": "bundles:inspect",
        "key": "bundles:key",
    },
    "worker": {
        "": "Workers, for administrators.",
        "list": "workers:list_workers",
        "token": "workers:token",
        "revoke": "workers:revoke",
    },
    "user": {
        "": "Users, for administrators.",
        "list": "users:list_users",
        "invite": "users:invite",
        "disable": "users:disable",
        "enable": "users:enable",
    },
    "token": {
        "": "API tokens.",
        "list": "tokens:list_tokens",
        "create": "tokens:create",
        "revoke": "tokens:revoke",
    },
}


COMPLETE = "_HUB_COMPLETE"  # set by the scripts of `hub completion`
CLICK_USAGE: type[Exception] = typer.BadParameter.__mro__[1]  # UsageError of click, of which typer may have a copy


def _wrong_line(error: Any) -> UsageError:
    """Click's complaint about a command line as ours."""
    message = error.format_message().replace("Value error, ", "").removesuffix(".")
    return UsageError(message[:1].lower() + message[1:], hint=f"`{error.ctx.command_path} --help`")


class HubGroup(LazyGroup):
    """The one boundary at which errors become messages."""

    table = COMMANDS

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """As click does it; a wrong option of `hub` itself is told as every other error."""
        try:
            return super().make_context(info_name, args, parent, **extra)
        except CLICK_USAGE as error:
            if type(error).__name__ == "NoArgsIsHelpError":
                raise
            session = extra.get("obj") or Session()
            session.json |= "--json" in args
            session.fail(_wrong_line(error))
            sys.exit(2)

    def main(self, *args: Any, **extra: Any) -> Any:
        """Answer a shell that asks for completions, or run a command."""
        if COMPLETE in os.environ:
            import_module("typer.completion").completion_init()
        return super().main(*args, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Run a command. EnvhubError -> message and hint on standard error, exit 1 or 2."""
        try:
            with command_span([*getattr(ctx, "_protected_args", ()), *ctx.args], self.table):
                return self._invoke(ctx)
        except EnvhubError as error:
            (ctx.obj or Session()).fail(error)
            raise typer.Exit(2 if isinstance(error, UsageError) else 1) from error
        except KeyboardInterrupt as error:
            raise typer.Exit(130) from error

    def _invoke(self, ctx: Any) -> Any:
        """What was typed and fits no request is a wrong command line; a file that resists is named."""
        given = tuple(ctx.args)
        try:
            return super().invoke(ctx)
        except CLICK_USAGE as error:
            if type(error).__name__ == "NoArgsIsHelpError":
                raise
            current(ctx).json |= "--json" in given
            raise _wrong_line(error) from error
        except ValidationError as error:
            fields = {toml_path(item["loc"]): in_words(item) for item in error.errors()}
            raise UsageError("wrong values", fields=fields) from error
        except OSError as error:
            if error.filename is None:  # a pipe that nobody reads any more: click's own
                raise
            raise EnvhubError(f"{error.filename}: {error.strerror}", code="file_error") from error


app = typer.Typer(
    name="hub",
    cls=HubGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # it would take [@version] for markup
    help="Environments Hub: push environments, evaluate and train models on them, keep the results.",
)


def _version(value: bool) -> None:
    if value:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def root(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True)] = False,
) -> None:
    """Prepare the session; tests bring their own. What a terminal's encoding lacks becomes a question mark."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    if ctx.obj is None:
        ctx.obj = Session()
