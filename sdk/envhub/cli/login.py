"""`hub login`, `hub logout`, `hub whoami`, `hub config`."""

from __future__ import annotations

import platform
import sys
import webbrowser
from typing import Annotated

import typer

from envhub.cli.terminal.configuration import forget_login, hub_address, save_login
from envhub.cli.terminal.session import JsonFlag, Session, current
from envhub.client import HubClient
from envhub.errors import UsageError


def login(
    ctx: typer.Context,
    url: Annotated[str | None, typer.Argument(help="Address of the hub (default: HUB_URL or the last one).")] = None,
    token: Annotated[str | None, typer.Option("--token", help="An API token; `-` reads it from stdin.")] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the approval page.")] = True,
    json: JsonFlag = False,
) -> None:
    """Log in: approve this machine in the browser, or store an API token."""
    session = current(ctx)
    given = url or session.environ.get("HUB_URL")  # then a broken file, which this replaces, does not matter
    where = hub_address(given) if given else session.configuration.url
    secret = sys.stdin.readline().strip() if token == "-" else token
    if secret == "":
        raise UsageError("the token is empty", hint="Omit --token to approve the login in a browser.")
    with session.connect(where, secret) as hub:
        granted = secret or _device_login(session, hub, open_browser=browser)
    with session.connect(where, granted) as hub:
        me = hub.accounts.me()
    save_login(session.config_file, where, granted)
    if session.environ.get("HUB_TOKEN"):
        session.note("note: HUB_TOKEN is set and wins over this login")
    session.show(me, lambda: session.out.print(f"logged in to {where} as {me.user}"))


def _device_login(session: Session, hub: HubClient, *, open_browser: bool) -> str:
    code = hub.accounts.start_device_login(f"hub on {platform.node() or 'an unnamed machine'}")
    session.err.print(f"Open {code.verification_uri} and enter the code [bold]{code.user_code}[/bold]")
    session.err.print(f"(it is valid for {code.expires_in // 60} minutes; Ctrl-C gives up)", style="dim")
    if open_browser:
        webbrowser.open(code.verification_uri_complete)
    return hub.accounts.wait_for_device(code).access_token


def logout(ctx: typer.Context, json: JsonFlag = False) -> None:
    """Forget the stored login (the token itself stays valid until it is revoked)."""
    session = current(ctx)
    existed = forget_login(session.config_file)
    session.show({"logged_out": existed}, lambda: session.out.print("logged out" if existed else "was not logged in"))


def whoami(ctx: typer.Context, json: JsonFlag = False) -> None:
    """Who am I here, and what may I do?"""
    session = current(ctx)
    me = session.hub.accounts.me()
    pairs = {"user": me.user, "owners": me.owners, "acts_for": session.configuration.owner, "scopes": me.scopes,
             "hub": session.configuration.url}  # fmt: skip
    session.show(me, lambda: session.fields(pairs))


def config(ctx: typer.Context, json: JsonFlag = False) -> None:
    """Show which hub and login are in use."""
    session = current(ctx)
    found = session.configuration
    pairs = {"url": found.url, "token_from": found.source, "acts_for": found.owner, "file": str(session.config_file)}
    session.show(pairs, lambda: session.fields(pairs))
