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
from envhub.cli.lazy_group import LazyGroup, Table
from envhub.cli.terminal.command_trace import command_span
from envhub.cli.terminal.session import Session, current
from envhub.errors import EnvhubError, UsageError
from envhub.protocol.toml_values import in_words, toml_path

# command -> "module:function" in this package; a nested table is a group, its "" the group's help
COMMANDS: Table = {
    "login": "login:login",
    "logout": "login:logout",
    "whoami": "login:whoami",
    "open": "opening:open_page",
    "usage": "usage:usage",
    "tui": "tui.command:tui",
    "config": "login:config",
    "completion": "completion:completion",
    "init": "environments.init:init",
    "push": "environments.push:push",
    "pull": "environments.install:pull",
    "install": "environments.install:install",
    "env": {
        "": "Environments and their versions.",
        "list": "environments.commands:list_environments",
        "info": "environments.commands:info",
        "versions": "environments.commands:versions",
        "files": "environments.commands:files",
        "init": "environments.init:init",
        "push": "environments.push:push",
        "pull": "environments.install:pull",
        "install": "environments.install:install",
        "set": "environments.commands:set_properties",
        "archive": "environments.commands:archive",
        "fork": "environments.move:fork",
        "move": "environments.move:move",
        "forget": "environments.move:forget",
        "unarchive": "environments.commands:unarchive",
        "diff": "environments.diff:diff",
        "star": "environments.commands:star",
        "unstar": "environments.commands:unstar",
        "yank": "environments.commands:yank",
        "unyank": "environments.commands:unyank",
        "check": "environments.check:check",
        "rebuild": "environments.commands:rebuild",
        "delete": "environments.commands:delete",
    },
    "eval": {
        "": "Evaluations: run, watch, push, pull, export.",
        "run": "evaluations.run:run",
        "list": "evaluations.commands:list_evaluations",
        "show": "evaluations.commands:show",
        "rollouts": "evaluations.commands:rollouts",
        "clusters": "evaluations.commands:clusters",
        "replay": "evaluations.replay:replay",
        "fingerprint": "fingerprints:of_evaluation",
        "label": "evaluations.annotate:label",
        "labels": "evaluations.annotate:labels",
        "note": "evaluations.annotate:note",
        "compare": "evaluations.compare:compare",
        "leaderboard": "evaluations.leaderboard:leaderboard",
        "logs": "evaluations.commands:logs",
        "cancel": "evaluations.commands:cancel",
        "resume": "evaluations.commands:resume",
        "push": "evaluations.results:push",
        "pull": "evaluations.results:pull",
        "export": "evaluations.results:export",
        "set": "evaluations.commands:set_visibility",
        "delete": "evaluations.commands:delete",
    },
    "train": {
        "": "Training runs from a TOML file.",
        "init": "training.init:init",
        "check": "training.check:check",
        "run": "training.run:run",
        "fingerprint": "fingerprints:of_training",
        "list": "training.commands:list_training",
        "show": "training.commands:show",
        "logs": "training.commands:logs",
        "metrics": "training.commands:metrics",
        "rollouts": "training.rollouts:rollouts",
        "replay": "training.replay:replay",
        "label": "training.annotate:label",
        "labels": "training.annotate:labels",
        "note": "training.annotate:note",
        "views": "training.views:list_views",
        "save-view": "training.views:save",
        "delete-view": "training.views:delete",
        "checkpoints": "training.commands:checkpoints",
        "stop": "training.commands:stop",
        "resume": "training.run:resume",
        "export": "training.commands:export",
        "set": "training.commands:set_visibility",
        "delete": "training.commands:delete",
    },
    "deploy": {
        "": "Deployments: trained adapters and models behind an OpenAI-compatible address.",
        "create": "resources.deployments:create",
        "list": "resources.deployments:list_deployments",
        "delete": "resources.deployments:delete",
    },
    "sandbox": {
        "": "Sandboxes: isolated machines for your own commands.",
        "create": "sandboxes.commands:create",
        "list": "sandboxes.commands:list_sandboxes",
        "show": "sandboxes.commands:show",
        "exec": "sandboxes.execute:execute",
        "run": "sandboxes.execute:run",
        "serve": "sandboxes.serve:serve",
        "shell": "sandboxes.shell:shell",
        "upload": "sandboxes.files:upload",
        "download": "sandboxes.files:download",
        "logs": "sandboxes.execute:logs",
        "ports": "sandboxes.commands:ports",
        "delete": "sandboxes.commands:delete",
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
        "list": "resources.models:list_models",
        "add": "resources.models:add",
        "show": "resources.models:show",
        "delete": "resources.models:delete",
        "test": "resources.models:call_once",
        "import": "resources.models:import_endpoints",
        "import-dir": "resources.models:import_directory",
        "pull": "resources.models:pull",
    },
    "team": {
        "": "Teams: members who own things together.",
        "create": "resources.teams:create",
        "list": "resources.teams:list_teams",
        "show": "resources.teams:show",
        "rename": "resources.teams:rename",
        "invite": "resources.teams:invite",
        "send": "resources.teams:send",
        "revoke": "resources.teams:revoke",
        "join": "resources.teams:join",
        "add": "resources.teams:add",
        "role": "resources.teams:set_role",
        "remove": "resources.teams:remove",
        "leave": "resources.teams:leave",
        "delete": "resources.teams:delete",
        "use": "resources.teams:use",
    },
    "secret": {
        "": "Secrets of an owner, granted to a run by name with --secret.",
        "list": "resources.secrets:list_secrets",
        "set": "resources.secrets:set_secret",
        "delete": "resources.secrets:delete",
    },
    "webhook": {
        "": "Webhooks: send events of an owner to your address.",
        "create": "resources.webhooks:create",
        "list": "resources.webhooks:list_webhooks",
        "deliveries": "resources.webhooks:deliveries",
        "test": "resources.webhooks:send_test",
        "again": "resources.webhooks:again",
        "enable": "resources.webhooks:enable",
        "delete": "resources.webhooks:delete",
    },
    "notifications": {
        "": "Notifications from the hub.",
        "list": "resources.notifications:list_notifications",
        "read": "resources.notifications:read",
        "choose": "resources.notifications:choose",
        "watch": "resources.score_watches:watch",
    },
    "views": {
        "": "Saved views: named filters of rollouts.",
        "list": "evaluations.views:list_views",
        "save": "evaluations.views:save",
        "delete": "evaluations.views:delete",
    },
    "share": {
        "": "Links that let people without an account read one result.",
        "create": "resources.links:create",
        "list": "resources.links:list_links",
        "revoke": "resources.links:revoke",
    },
    "data": {
        "": "Data sets that boxes load, fetched on demand or added by hand.",
        "list": "resources.data:list_data",
        "add": "resources.data:add",
        "refresh": "resources.data:refresh",
        "delete": "resources.data:delete",
    },
    "image": {
        "": "Images of sandboxes, added by hand or pinned when a worker pulled them.",
        "list": "resources.images:list_images",
        "add": "resources.images:add",
        "build": "resources.images:build",
        "set": "resources.images:set_visibility",
        "delete": "resources.images:delete",
    },
    "bundle": {
        "": "Bundles: a version with everything it needs, for a hub without a network.",
        "export": "administration.bundles:export",
        "import": "administration.bundles:import_bundle",
        "inspect": "administration.bundles:inspect",
        "key": "administration.bundles:key",
    },
    "worker": {
        "": "Workers, for administrators.",
        "list": "administration.workers:list_workers",
        "show": "administration.workers:show",
        "token": "administration.workers:token",
        "drain": "administration.workers:drain",
        "resume": "administration.workers:resume",
        "revoke": "administration.workers:revoke",
    },
    "user": {
        "": "Users, for administrators.",
        "list": "administration.users:list_users",
        "invite": "administration.users:invite",
        "disable": "administration.users:disable",
        "enable": "administration.users:enable",
    },
    "quota": {
        "": "Quotas of owners, for administrators.",
        "list": "administration.quotas:list_quotas",
        "set": "administration.quotas:set_quota",
    },
    "audit": {
        "": "The audit log: who changed what, for whom, from where.",
        "list": "administration.audit:list_entries",
        "export": "administration.audit:export",
    },
    "token": {
        "": "API tokens.",
        "list": "administration.tokens:list_tokens",
        "create": "administration.tokens:create",
        "revoke": "administration.tokens:revoke",
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
    no_pager: Annotated[bool, typer.Option("--no-pager", help="Print long output without $PAGER.")] = False,
) -> None:
    """Prepare the session; tests bring their own. What a terminal's encoding lacks becomes a question mark."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    if ctx.obj is None:
        ctx.obj = Session()
    ctx.obj.pager = not no_pager
