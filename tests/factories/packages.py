"""Makes small environment packages on disk, and wheels and sdists by hand (also hostile ones). Needs no network."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

LEGACY_SOURCE = '''"""Reverse a text: the smallest environment that works."""

import verifiers as vf
from datasets import Dataset


def load_environment(num_examples: int = 4) -> vf.Environment:
    """Rows of words to reverse, rewarded by exact match."""
    words = ["abc", "hello", "stone", "river"][:num_examples]
    rows = [{"question": f"Reverse: {word}", "answer": word[::-1]} for word in words]

    def exact(completion, answer) -> float:
        return float(completion[-1]["content"].strip() == answer)

    return vf.SingleTurnEnv(dataset=Dataset.from_list(rows), rubric=vf.Rubric(funcs=[exact]))
'''

CURRENT_SOURCE = '''"""Count words: the smallest taskset of the current generation."""

import verifiers.v1 as vf


class CountData(vf.TaskData):
    expected: str


class CountTask(vf.Task[CountData]):
    @vf.reward
    async def exact(self, trace: vf.Trace) -> float:
        return float(trace.last_reply.strip() == self.data.expected)


class CountTaskset(vf.Taskset[CountTask, vf.TasksetConfig]):
    def load(self) -> list[CountTask]:
        texts = ["one two", "one two three"]
        return [
            CountTask(CountData(idx=i, prompt=f"How many words? {text}", expected=str(len(text.split()))))
            for i, text in enumerate(texts)
        ]


__all__ = ["CountTaskset"]
'''

README = "# {name}\n\n## Overview\nA small environment.\n\n## Environment arguments\nNone.\n"

PYPROJECT = """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "{version}"
description = "A small environment."
readme = "README.md"
requires-python = ">=3.11"
dependencies = {dependencies}

[tool.hatch.build]
include = ["{module}.py", "README.md", "pyproject.toml"]
{extra}"""


def write_package(
    root: Path,
    name: str = "tiny-env",
    version: str = "0.1.0",
    *,
    source: str = LEGACY_SOURCE,
    dependencies: Sequence[str] = ("verifiers>=0.1.8",),
    readme: str | None = README,
    pyproject_extra: str = "",
    files: Mapping[str, str | bytes] | None = None,
) -> Path:
    """A package directory `root/<name_snake>` like those that `hub init` writes; `files` are added or replaced."""
    module = name.replace("-", "_")
    directory = root / module
    directory.mkdir(parents=True)
    listed = "[" + ", ".join(f'"{item}"' for item in dependencies) + "]"
    pyproject = PYPROJECT.format(name=name, version=version, module=module, dependencies=listed, extra=pyproject_extra)
    contents: dict[str, str | bytes] = {f"{module}.py": source, "pyproject.toml": pyproject}
    if readme is not None:
        contents["README.md"] = readme.format(name=name)
    else:
        contents["pyproject.toml"] = pyproject.replace('readme = "README.md"\n', "").replace('"README.md", ', "")
    for path, content in {**contents, **(files or {})}.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode() if isinstance(content, str) else content)
    return directory


def metadata_text(
    name: str, version: str, *, requires: Sequence[str] = (), requires_python: str = ">=3.11", readme: str = "# Hello"
) -> str:
    """A METADATA (or PKG-INFO) file."""
    lines = ["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}", "Summary: A small environment."]
    lines += [f"Requires-Python: {requires_python}"] if requires_python else []
    lines += [f"Requires-Dist: {item}" for item in requires]
    lines += ["Description-Content-Type: text/markdown", "", readme]
    return "\n".join(lines)


def make_wheel(
    folder: Path,
    name: str = "tiny-env",
    version: str = "0.1.0",
    *,
    files: Mapping[str, str | bytes] | None = None,
    requires: Sequence[str] = ("verifiers>=0.1.8",),
    requires_python: str = ">=3.11",
    readme: str = "# Hello",
    tag: str = "py3-none-any",
) -> Path:
    """A wheel written by hand: any member name is possible. `files` default to one legacy module."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    members: dict[str, str | bytes] = dict(files if files is not None else {f"{module}.py": LEGACY_SOURCE})
    members[f"{info}/METADATA"] = metadata_text(
        name, version, requires=requires, requires_python=requires_python, readme=readme
    )
    members[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n"
    members[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in [*members, f"{info}/RECORD"])
    path = folder / f"{module}-{version}-{tag}.whl"
    path.write_bytes(zip_bytes(members))
    return path


def make_sdist(
    folder: Path,
    name: str = "tiny-env",
    version: str = "0.1.0",
    *,
    files: Mapping[str, str | bytes] | None = None,
    requires: Sequence[str] = ("verifiers>=0.1.8",),
    pyproject: str | None = None,
) -> Path:
    """An sdist written by hand, matching `make_wheel` of the same name and version."""
    module = name.replace("-", "_")
    root = f"{module}-{version}"
    listed = "[" + ", ".join(f'"{item}"' for item in requires) + "]"
    members: dict[str, str | bytes] = {
        "PKG-INFO": metadata_text(name, version, requires=requires),
        "README.md": "# Hello\n",
        "pyproject.toml": pyproject
        or PYPROJECT.format(name=name, version=version, module=module, dependencies=listed, extra=""),
        **(files if files is not None else {f"{module}.py": LEGACY_SOURCE}),
    }
    path = folder / f"{root}.tar.gz"
    path.write_bytes(tar_bytes({f"{root}/{name}": content for name, content in members.items()}))
    return path


def make_pair(
    folder: Path, name: str = "tiny-env", version: str = "0.1.0", source: str = LEGACY_SOURCE
) -> tuple[Path, Path]:
    """A matching wheel and sdist with one module."""
    files = {f"{name.replace('-', '_')}.py": source}
    return make_wheel(folder, name, version, files=files), make_sdist(folder, name, version, files=files)


def zip_bytes(members: Mapping[str, str | bytes], *, modes: Mapping[str, int] | None = None) -> bytes:
    """A zip file of any member names; `modes` are st_mode values (a link is 0o120777)."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name, date_time=(2020, 2, 2, 0, 0, 0))
            info.external_attr = (modes or {}).get(name, 0o100644) << 16
            info.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(info, content)
    return buffer.getvalue()


def tar_bytes(members: Mapping[str, str | bytes], *, extra: Sequence[tarfile.TarInfo] = ()) -> bytes:
    """A tar.gz file of any member names; `extra` members (links, devices) have no content."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", format=tarfile.PAX_FORMAT) as archive:
        for name, content in members.items():
            data = content.encode() if isinstance(content, str) else content
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o644
            archive.addfile(info, io.BytesIO(data))
        for info in extra:
            archive.addfile(info)
    return buffer.getvalue()


def sha256(path: Path) -> str:
    """SHA-256 of a file, as the wire wants it."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
