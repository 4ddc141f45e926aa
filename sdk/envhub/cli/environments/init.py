"""`hub init`: writes a package that works."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from envhub.cli.terminal.session import JsonFlag, current
from envhub.errors import UsageError
from envhub.packaging.entry_module import is_standard
from envhub.packaging.template import Template, write_template

IMPORTED = {"verifiers", "datasets"}  # what the templates import


def init(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="The environment's name, e.g. my-env.")],
    template: Annotated[Template, typer.Option(help="verifiers 0.1.x (legacy) or the current taskset API.")]
    = Template.LEGACY,
    path: Annotated[Path, typer.Option(help="Where the package's directory goes.")] = Path("environments"),
    json: JsonFlag = False,
) -> None:  # fmt: skip
    """Write a new environment package to ./environments/NAME: code, README, test."""
    session = current(ctx)
    slug = name.lower().replace("_", "-")
    if not re.fullmatch(r"[a-z](?:[a-z0-9-]{0,62}[a-z0-9])?", slug):
        raise UsageError(
            f"{name!r} cannot be an environment's name", hint="Use a-z, 0-9 and dashes, starting with a letter."
        )
    if is_standard(slug.replace("-", "_")):
        raise UsageError(
            f"{name!r} is also a module of Python's standard library, which would be loaded instead",
            hint=f"Choose another name, such as {slug}-env.",
        )
    if slug in IMPORTED:
        raise UsageError(f"an environment needs the package {slug} itself", hint=f"Choose another name: my-{slug}.")
    directory = path / name
    if directory.exists():
        raise UsageError(f"{directory} already exists", hint="Choose another name, or remove it.")
    written = write_template(directory, slug, template)
    value = {"name": slug, "directory": str(directory), "files": written}
    pushed = name if path in (Path("environments"), Path()) else directory  # names are found in these two
    session.show(value, lambda: session.out.print(f"wrote {directory}\nnext: hub push {pushed}", markup=False))
