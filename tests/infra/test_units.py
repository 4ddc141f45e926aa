"""The systemd units and the job script are ones that systemd and bash take, and start what this checkout has."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from hub.backups.management.commands.backup import MADE_WITHOUT_LOST

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "infra/systemd").glob("environments-hub*"))


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="apt-get install systemd")
def test_systemd_has_nothing_to_say_of_the_units(tmp_path: Path) -> None:
    for unit in UNITS:
        text = unit.read_text().replace("/opt/environments-hub", str(ROOT))
        (tmp_path / unit.name).write_text(text)
    said = subprocess.run(
        ["systemd-analyze", "verify", *(str(tmp_path / unit.name) for unit in UNITS)],
        capture_output=True,
        text=True,
        check=False,
    )
    about_ours = [line for line in said.stderr.splitlines() if "environments-hub" in line]
    assert (len(UNITS), about_ours) == (6, [])


@pytest.mark.parametrize("destination", ["", "/srv/backups"])
def test_the_daily_unit_backs_up_only_if_there_is_a_destination(tmp_path: Path, destination: str) -> None:
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$@"\n')
    python.chmod(0o755)
    lines = (ROOT / "infra/systemd/environments-hub-daily.service").read_text().splitlines()
    (command,) = [line.partition("=")[2] for line in lines if line.startswith("ExecStart=/bin/sh")]
    env = {"HUB_BACKUP_DESTINATION": destination}
    done = subprocess.run(shlex.split(command), cwd=tmp_path, env=env, capture_output=True, text=True, check=True)
    assert done.stdout == ("manage.py backup --keep 14\n" if destination else "")


def test_a_step_of_the_daily_unit_that_fails_does_not_skip_the_backup() -> None:
    lines = (ROOT / "infra/systemd/environments-hub-daily.service").read_text().splitlines()
    commands = [line for line in lines if line.startswith("ExecStart=")]
    assert ["manage.py backup" in command for command in commands] == [True, False, False]
    assert f"SuccessExitStatus={MADE_WITHOUT_LOST}" in lines


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="apt-get install shellcheck")
def test_shellcheck_has_nothing_to_say_of_our_scripts() -> None:
    scripts = [ROOT / "infra/slurm/worker.sbatch", *(ROOT / "infra/setup").glob("*.sh")]
    done = subprocess.run(["shellcheck", "-S", "warning", *scripts], capture_output=True, text=True, check=False)
    assert (len(scripts) > 5, done.stdout) == (True, "")


@pytest.mark.parametrize("kept", [{}, {"WORKER_DATA": "node/kept"}])
def test_the_job_script_hands_the_signal_on_and_waits_for_the_worker(tmp_path: Path, kept: dict[str, str]) -> None:
    (tmp_path / "node").mkdir()
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(
        '#!/bin/bash\n[ "$2" = workers ] || exit 0\n'
        'trap \'sleep 0.2; echo gave back; exit 0\' TERM\nmkdir -p "$WORKER_DATA"; echo "$WORKER_NAME"; '
        'kill -TERM "$PPID"; sleep 5 & wait\n'
    )
    python.chmod(0o755)
    slurm = {"SLURM_JOB_ID": "7", "SLURM_SUBMIT_DIR": str(tmp_path), "PATH": "/usr/bin:/bin"}
    worker = {"WORKER_HUB_URL": "http://hub", "WORKER_TOKEN": "hubw_x", "TMPDIR": str(tmp_path / "node")} | kept
    script = str(ROOT / "infra/slurm/worker.sbatch")
    done = subprocess.run(["bash", script], env=slurm | worker, capture_output=True, text=True, timeout=20, check=False)
    assert (done.stdout.split("\n"), done.returncode) == (["slurm-7", "gave back", ""], 0), done.stderr
    assert [path.name for path in (tmp_path / "node").iterdir()] == (["kept"] if kept else [])
