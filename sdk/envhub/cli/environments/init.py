"""`hub init`: writes a package that works, from templates/."""

from __future__ import annotations

import re
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import Annotated

import jinja2
import typer

from envhub.cli.terminal.session import JsonFlag, current
from envhub.errors import UsageError


class Template(StrEnum):
    """Which verifiers API the package is written for."""

    LEGACY = "legacy"  # load_environment, verifiers 0.1.x
    CURRENT = "current"  # a taskset, verifiers 0.3.1 and later


UNWRITTEN = ": one sentence about the task."  # how the templates' descriptions end
# template file -> path in the package; {module} is the import name
_FILES = {
    Template.LEGACY: {
        "module.py.j2": "{module}.py",
        "pyproject.toml.j2": "pyproject.toml",
        "README.md.j2": "README.md",
        "test.py.j2": "tests/test_{module}.py",
        "gitignore.j2": ".gitignore",
    },
    Template.CURRENT: {
        "package.py.j2": "{module}/__init__.py",
        "taskset.py.j2": "{module}/taskset.py",
        "pyproject.toml.j2": "pyproject.toml",
        "README.md.j2": "README.md",
        "test.py.j2": "tests/test_{module}.py",
        "gitignore.j2": ".gitignore",
    },
}


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
        raise UsageError(f"{name!r} cannot be an environment's name", hint="Use a-z, 0-9 and dashes, a letter first.")
    directory = path / name
    if directory.exists():
        raise UsageError(f"{directory} exists already", hint="Choose another name, or remove it.")
    written = write_template(directory, slug, template)
    value = {"name": slug, "directory": str(directory), "files": written}
    session.show(value, lambda: session.out.print(f"wrote {directory}\nnext: hub push {name}", markup=False))


def write_template(directory: Path, slug: str, template: Template) -> list[str]:
    """Render every file of a template; returns their paths."""
    module = slug.replace("-", "_")
    camel = "".join(part.capitalize() for part in slug.split("-"))
    names = {
        "name": slug,
        "module": module,
        "camel": camel,
        "title": slug.replace("-", " ").capitalize(),
        "unwritten": UNWRITTEN,
    }
    folder = resources.files("envhub.cli").joinpath("templates", template.value)
    engine = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False)
    written = []
    for source, destination in _FILES[template].items():
        target = directory / destination.format(module=module)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(engine.from_string(folder.joinpath(source).read_text()).render(names))
        written.append(str(target))
    return written
