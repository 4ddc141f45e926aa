"""Tools that an environment starts with `uvx`: each has its own locked environment inside, and `uvx` finds it offline.

The programs written here run inside the box only, with the environment's interpreter.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from workers.venvs.programs import SHEBANG

TOOLS = "tools"
INDEX = "index.json"

_UVX = '''"""`uvx` and `uv tool run` inside a box: starts a tool that was resolved when the version was built."""
import json, os, re, sys

WITH_VALUE = {"--from", "--with", "-w", "--python", "-p", "--index", "--index-url", "-i", "--default-index",
              "--extra-index-url", "--find-links", "-f", "--directory", "--project", "--cache-dir", "--color",
              "--link-mode", "--index-strategy", "--prerelease", "--constraint", "-c", "--env-file"}

def name_of(requirement):
    return re.sub(r"[-_.]+", "-", re.split(r"[\\\\[@=<>!~; ]", requirement.strip())[0]).lower()

def main(arguments):
    source = None
    while arguments and arguments[0].startswith("-"):
        flag, _, value = arguments.pop(0).partition("=")
        if flag in WITH_VALUE and not value:
            value = arguments.pop(0) if arguments else ""
        if flag == "--from":
            source = value
    if not arguments:
        sys.exit("uvx: no program given")
    program = arguments[0]
    home = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    with open(os.path.join(home, "tools", "index.json")) as stream:
        known = {name_of(requirement): folder for requirement, folder in json.load(stream).items()}
    wanted = name_of(source or program)
    if wanted not in known:
        sys.exit(f"uvx: {wanted} was not resolved when this version was built; known: {', '.join(known) or 'none'}. "
                 "Name it in [tool.envhub] programs = [...] and push again.")
    command = program if source else re.split(r"[@=<>!~; ]", program)[0]
    path = os.path.join(home, "tools", known[wanted], "bin", command)
    os.execv(path, [path, *arguments[1:]])

arguments = sys.argv[1:]
if os.path.basename(sys.argv[0]) == "uv":
    if arguments[:2] != ["tool", "run"]:
        sys.exit("uv: only `uv tool run` works in a box; everything else was resolved when this version was built")
    arguments = arguments[2:]
main(arguments)
'''


def install_tools(environment: Path, requirements: Sequence[str]) -> None:
    """Write `uvx`, `uv` and the index of tools; the n-th requirement's environment is `tools/<n>`."""
    if not requirements:
        return
    index = {requirement: str(number) for number, requirement in enumerate(requirements)}
    (environment / TOOLS / INDEX).write_text(json.dumps(index))
    for name in ("uvx", "uv"):
        program = environment / "bin" / name
        program.unlink(missing_ok=True)  # the package `uv` brings the real one, which has no index to ask in a box
        program.write_text(SHEBANG + _UVX)
        program.chmod(0o555)
