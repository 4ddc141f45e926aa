"""Source archives for tests, with a build backend of their own that needs nothing, or what a test says."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

BACKEND = """
import os, zipfile

NAME, VERSION = {name!r}, {version!r}
STEM = f"{{NAME}}-{{VERSION}}"

def build_wheel(folder, config_settings=None, metadata_directory=None):
{before}
    filename = f"{{STEM}}-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(folder, filename), "w") as wheel:
        wheel.writestr(f"{{NAME}}.py", open("module.py").read())
        metadata = f"Metadata-Version: 2.1\\nName: {{NAME}}\\nVersion: {{VERSION}}\\n{requires}"
        wheel.writestr(f"{{STEM}}.dist-info/METADATA", metadata)
        wheel.writestr(f"{{STEM}}.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{{STEM}}.dist-info/RECORD", "")
    return filename

def build_sdist(folder, config_settings=None):
    import io, tarfile
    contents = {{"PKG-INFO": f"Metadata-Version: 2.1\\nName: {{NAME}}\\nVersion: {{VERSION}}\\n"}}
    contents["module.py"] = open("module.py").read()
    with tarfile.open(os.path.join(folder, f"{{STEM}}.tar.gz"), "w:gz") as archive:
        for name, text in contents.items():
            member = tarfile.TarInfo(f"{{STEM}}/{{name}}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return f"{{STEM}}.tar.gz"
"""


def make_sdist(
    folder: Path,
    name: str,
    version: str = "1.0",
    *,
    build_requires: Sequence[str] = (),
    requires: Sequence[str] = (),
    before: str = "pass",
    files: Mapping[str, str] | None = None,
) -> Path:
    """A tar.gz whose own backend makes a wheel with one module. `before` is code that runs in the build hook."""
    lines = "".join(f"Requires-Dist: {line}\\n" for line in requires)
    indented = "\n".join(f"    {line}" for line in before.splitlines())
    backend = BACKEND.format(name=name, version=version, before=indented, requires=lines)
    pyproject = f'[build-system]\nrequires = {list(build_requires)}\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    contents = {"pyproject.toml": pyproject, "backend.py": backend, "module.py": "answer = 42\n", **(files or {})}
    contents["PKG-INFO"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for member, text in contents.items():
            info = tarfile.TarInfo(f"{name}-{version}/{member}")
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return path
