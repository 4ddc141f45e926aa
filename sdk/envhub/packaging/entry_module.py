"""Finds the module of a package that loads its environment: the rule of the hub and of `hub eval run --local`."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any

from envhub.errors import PackageError
from envhub.packaging import verifiers_usage


def entry_module(name: str, paths: Iterable[str], sources: Mapping[str, str], pyproject: Mapping[str, Any]) -> str:
    """Return the import name that `load_environment(name)` uses, if the package has it; else the one of the `loader`
    that its author states, its only module, or the only one that defines an environment.

    `paths` are those of all files as in a wheel, `sources` the text of Python files among them. [tool.envhub] `module`
    of `pyproject` comes before all others. Raises PackageError (`no_module`, `standard_module`).
    """
    found = _found(name, paths, sources, _table(pyproject, "envhub"), _loader(pyproject))
    if is_standard(found):
        raise PackageError(
            f"the module {found} can never be loaded: Python's standard library has a module of this name",
            code="standard_module",
            hint='rename it, and name it after the package or as [tool.envhub] module = "..."',
        )
    return found


def is_standard(module: str) -> bool:
    """Return whether Python loads a module of its standard library under this name, whatever is installed."""
    return module in sys.stdlib_module_names


def _table(pyproject: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    found: object = pyproject.get("tool")
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else {}


def _loader(pyproject: Mapping[str, Any]) -> str:
    """Return the module of `[tool.prime.environment] loader = "module:load_environment"`; "" without one."""
    stated = _table(pyproject, "prime", "environment").get("loader")
    return stated.partition(":")[0].partition(".")[0].strip() if isinstance(stated, str) else ""


def _found(
    name: str, paths: Iterable[str], sources: Mapping[str, str], hub_config: Mapping[str, Any], loader: str
) -> str:
    modules = {_module_of(path) for path in paths} - {""}
    wanted = hub_config.get("module") or name.replace("-", "_")
    if wanted in modules:
        return str(wanted)
    if "module" not in hub_config and loader in modules:
        return loader
    defining = defining_modules(sources)
    if "module" not in hub_config and len(found := defining or sorted(modules)) == 1:
        return found[0]
    has = f"environments are in {', '.join(defining[:10])}" if defining else f"it has {', '.join(sorted(modules)[:10])}"
    raise PackageError(
        f"the package has no module {wanted}: {has if modules else 'it has no Python code'}",
        code="no_module",
        hint='name the entry module after the package, or set [tool.envhub] module = "..."',
    )


def defining_modules(sources: Mapping[str, str]) -> list[str]:
    """List the modules that define a load_environment, or export a taskset."""
    modules = sorted({_module_of(path) for path in sources} - {""})
    return [module for module in modules if _defines_environment(module, sources)]


def _defines_environment(module: str, sources: Mapping[str, str]) -> bool:
    own = {path: text for path, text in sources.items() if _module_of(path) == module}
    usage = verifiers_usage.read(own)
    taskset = usage.find(frozenset({"Taskset"}), in_v1=True)
    return "load_environment" in usage.functions or bool(taskset and usage.exports)


def _module_of(path: str) -> str:
    top, _, rest = path.partition("/")
    if not rest:
        return PurePosixPath(top).stem if top.endswith(".py") else ""
    return top if rest.endswith(".py") and top.isidentifier() else ""
