"""`python -m workers.sandbox`, as people and scripts use it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.sandbox
REPOSITORY = Path(__file__).resolve().parents[3]


def sandbox(*arguments: str, env: dict[str, str] | None = None) -> "subprocess.CompletedProcess[bytes]":
    command = [sys.executable, "-m", "workers.sandbox", *arguments]
    return subprocess.run(command, capture_output=True, timeout=60, stdin=subprocess.DEVNULL, env=env)


def test_status_and_streams_are_the_commands() -> None:
    done = sandbox("run", "--", "sh", "-c", "echo out; echo err >&2; exit 9")
    assert (done.returncode, done.stdout, done.stderr) == (9, b"out\n", b"err\n")


def test_options_after_the_command_are_the_commands() -> None:
    assert sandbox("run", "--", "echo", "--mem", "--").stdout == b"--mem --\n"


def test_output_is_streamed_whole() -> None:
    assert len(sandbox("run", "--", "head", "-c", "5000000", "/dev/zero").stdout) == 5_000_000


def test_a_memory_limit_is_held_and_said() -> None:
    done = sandbox("run", "--mem", "64", "--", "python3", "-c", "x = b'x' * (200 << 20); import time; time.sleep(3)")
    assert done.returncode == 137
    assert b"out of memory" in done.stderr


def test_a_file_limit_is_held() -> None:
    done = sandbox("run", "--files", "50", "--", "sh", "-c", "for n in $(seq 100); do : > $n || exit 1; done")
    assert done.returncode != 0


def test_a_process_limit_is_held() -> None:
    code = "import subprocess as s; [s.Popen(['sleep', '9']) for _ in range(40)]"
    assert b"BlockingIOError" in sandbox("run", "--pids", "20", "--", "python3", "-c", code).stderr


def test_no_command_is_a_usage_error() -> None:
    assert sandbox("run").returncode == 2
    assert sandbox("run", "--mem", "-1", "--", "true").returncode == 2


def test_the_process_backend_is_refused_without_its_second_setting() -> None:
    done = sandbox("run", "--backend", "process", "--", "true")
    assert done.returncode == 125
    assert b"WORKER_SANDBOX_ACCEPT_NO_ISOLATION" in done.stderr


PLAIN_PYTHON = "/usr/bin/python3"
plain = ["setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups", "env", "-i", "PATH=/usr/bin:/bin"]


@pytest.mark.skipif(os.geteuid() != 0 or not Path(PLAIN_PYTHON).exists(), reason="root and a system Python only")
@pytest.mark.skipif(not REPOSITORY.stat().st_mode & 0o5, reason="the tree is closed to other users")
def test_a_plain_user_has_boxes_too() -> None:
    command = [
        *plain,
        PLAIN_PYTHON,
        "-B",
        "-m",
        "workers.sandbox",
        "run",
        "--",
        "id",
        "-u",
    ]
    done = subprocess.run(command, capture_output=True, timeout=60, cwd=REPOSITORY)
    if b"No module named" in done.stderr or b"SyntaxError" in done.stderr:
        pytest.skip("the system's Python is too old, or may not read the tree")
    assert (done.returncode, done.stdout) == (0, b"1000\n"), done.stderr


def test_check_says_it_in_one_line() -> None:
    done = sandbox("check")
    assert done.returncode == 0
    assert done.stdout.startswith(b"sandbox ok: bwrap")
    assert done.stdout.count(b"\n") == 1
