"""Every release of the real clients, against the service, in an environment of its own."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.external_packages import python_with
from tests.fakes.sandbox_service import RUN_ALLOWS, sandbox_service
from tests.workers.broker.prime.real_service import real_service
from workers.broker.prime import prime_variables, tunnel_files

pytestmark = pytest.mark.matrix
HERE = Path(__file__).parent
RELEASES = ["0.2.3", "0.2.21", "0.2.36", "0.2.42", "0.3.2", "0.4.7", "0.5.1"]
TYPED = {
    "stopped": "SandboxNotRunningError",
    "timed_out": "SandboxTimeoutError",
    "out_of_memory": "SandboxOOMError",
    "failed": "SandboxNotRunningError",
}


async def output_of(python: str, program: str, address: str, folder: Path, *more: str) -> Any:
    """What one of the programs here prints, as JSON, run with the variables of a box."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), **prime_variables(address)}
    process = await asyncio.create_subprocess_exec(
        python, str(HERE / program), address, str(folder), *more, env=environment, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    assert process.returncode == 0
    return json.loads(output)


@pytest.mark.parametrize("release", RELEASES)
async def test_a_release_can_do_all_that_it_has(release: str, tmp_path: Path) -> None:
    python = await asyncio.to_thread(python_with, f"prime-sandboxes=={release}", tmp_path)
    async with sandbox_service() as (address, _):
        found = await output_of(python, "client_program.py", address, tmp_path)
    check(found, release)


@pytest.mark.sandbox
@pytest.mark.parametrize("release", ["0.2.36", "0.5.1"])
async def test_a_release_can_do_all_that_it_has_in_real_sandboxes(release: str, tmp_path: Path, root: Path) -> None:
    python = await asyncio.to_thread(python_with, f"prime-sandboxes=={release}", tmp_path)
    async with real_service(root) as address:
        found = await output_of(python, "client_program.py", address, tmp_path, "x")
    check(found, release)


def check(found: dict[str, Any], release: str) -> None:
    for kind in ("sync", "async", "vm"):
        if kind in found:
            check_work(found[kind])
    check_creation(found["creation"])
    typed = {state: [[name], [name]] for state, name in TYPED.items()}
    lacking = ["SandboxImagePullError", "SandboxNotRunningError"]
    if release == "0.2.3":  # it has one class for all of these
        typed, lacking = {state: [["APIError"], ["APIError"]] for state in TYPED}, ["SandboxNotRunningError"]
    assert found["endings"] == {**typed, "lacking": lacking}


def check_work(done: dict[str, Any]) -> None:
    assert done["commands"] == [4, "é\n/tmp\n", "e\n", ["CommandTimeoutError"], 3_000_000]
    expected = {
        "size": 10240,
        "same": True,
        "text": "0123456789",
        "missing": ["SandboxFileNotFoundError", "APIError"],
        "window": ["67", 10, 6, True],
        "large": ["SandboxFileTooLargeError", "APIError"],
    }
    assert done["files"].items() <= expected.items()
    job = {"code": 3, "stdout": "out\n", "runs": False, "batch": [[True, 3], [False, None]]}
    assert (done["jobs"] or {}).items() <= job.items()
    assert done.get("ports") in (None, ["GET x=1 ", 1, 1, 0])
    assert done.get("live", ["got hello\n", 143, 137]) == ["got hello\n", 143, 137]
    if "network" in done:
        applied, hosts, refused = done["network"]
        assert (applied, hosts) == (True, list(RUN_ALLOWS))
        assert "does not let sandboxes reach elsewhere.example.org" in refused


def check_creation(done: dict[str, Any]) -> None:
    assert done["unknown"] == "HTTP 404: Sandbox nothing not found"
    assert (done["before"], done["after"], done["bulk"]) == ("PENDING", "TERMINATED", ["RUNNING"] * 3)
    assert (done["page"], done["got"], done["deleted"]) == ([2, 3, True], ["group", "0"], [1, 1, 2])


async def test_the_tunnel_of_a_real_client_starts_and_stops(tmp_path: Path) -> None:
    python = await asyncio.to_thread(python_with, "prime-tunnel", tmp_path)
    module = next((tmp_path / "venv").glob("lib/*/site-packages/prime_tunnel/binary.py")).read_bytes()
    for name, (content, mode) in tunnel_files(module).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)
    async with sandbox_service() as (address, _):
        found = await output_of(python, "tunnel_program.py", address, tmp_path)
    assert found["url"] == f"http://127.0.0.1:31980/t/{found['id']}"
    assert found["seen"] == [True, True, "connected", False]


async def test_our_reading_of_messages_is_that_of_the_generated_code(tmp_path: Path) -> None:
    python = await asyncio.to_thread(python_with, "prime-sandboxes==0.5.1", tmp_path)
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    process = await asyncio.create_subprocess_exec(python, str(HERE / "protobuf_program.py"), env=environment)
    assert await process.wait() == 0
