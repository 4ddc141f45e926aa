"""Finds the package directory that a command means: a path, or the name of one under ./environments."""

from __future__ import annotations

from pathlib import Path

from envhub.errors import UsageError


def find_package(given: str | None) -> Path:
    """A directory with a pyproject.toml. Raises UsageError that says where was looked."""
    if given is None:
        if Path("pyproject.toml").is_file():
            return Path.cwd()
        raise UsageError("no package here", hint="Give a path, or the name of a directory under ./environments.")
    candidates = [Path("environments") / name for name in spellings(given)] if "/" not in given else []
    for candidate in [Path(given), *candidates]:
        if (candidate / "pyproject.toml").is_file():
            return candidate
    looked = ", ".join(str(path) for path in [Path(given), *candidates])
    raise UsageError(f"no package directory {given!r} (looked at {looked})", hint="Make one with `hub init NAME`.")


def spellings(name: str) -> list[str]:
    """`my-env` may lie in my-env or my_env."""
    return list(dict.fromkeys([name, name.replace("-", "_"), name.replace("_", "-")]))
