"""What does a backup cost? `python -m tests.bench.bench_backup [--rollouts N] [--blobs N]` (needs Postgres).

A throw-away database of TEST_DATABASE_URL with a million rows of the rollouts' index, and 10,000 blobs of 64 KiB in
files. Each command is a process of its own, as an operator types it: the first backup, a second one of the unchanged
hub, verifying without and with the identity, restoring into an empty database. Prints seconds and the peak of memory;
exit status 1 when one takes longer than its limit or more than 500 MB.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import secrets
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ["TEST_BACKEND"] = "services"
import django

import tests.backends  # sets HUB_* before Django reads its settings

django.setup()

from django.conf import settings  # noqa: E402
from django.db import connection  # noqa: E402
from django.test.utils import setup_test_environment  # noqa: E402

from hub.backups.identities import new_identity  # noqa: E402
from hub.registry.models import StoredWheel  # noqa: E402
from hub.storage.models import Blob  # noqa: E402
from tests.bench.bench_lists import execute, seed_rollouts  # noqa: E402
from tests.e2e.services import own_services  # noqa: E402
from tests.factories.accounts import make_user  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
BLOB_BYTES = 64 * 1024
MOST_MB = 500
LIMITS_S = {"backup": 60, "second backup": 30, "verify": 30, "verify with identity": 60, "restore": 180}


def seed(rollouts: int, blobs: int) -> None:
    """Rows of one evaluation, and blobs that rows refer to."""
    seed_rollouts(make_user("bench"), rollouts)
    hashes = [_store(secrets.token_bytes(BLOB_BYTES)) for _ in range(blobs)]
    Blob.objects.bulk_create([Blob(sha256=name, size=BLOB_BYTES) for name in hashes], batch_size=5000)
    wheels = (StoredWheel(blob_id=name, filename=f"{name}.whl", name="n", version="1") for name in hashes)
    StoredWheel.objects.bulk_create(wheels, batch_size=5000)
    execute("VACUUM ANALYZE")


def _store(content: bytes) -> str:
    """As the files backend has it, without its syncs, which are no part of what is measured."""
    name = hashlib.sha256(content).hexdigest()
    path = settings.HUB.data / "blobs" / name[:2] / name[2:4] / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return name


def timed(label: str, variables: dict[str, str], *arguments: str) -> bool:
    """One command; whether it kept its limits."""
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "manage.py", *arguments], cwd=ROOT, env={**os.environ, **variables})
    megabytes = 0.0
    while process.poll() is None:
        megabytes = _peak_megabytes(process.pid) or megabytes
        time.sleep(0.05)
    seconds = time.monotonic() - began
    fine = process.returncode == 0 and seconds <= LIMITS_S[label] and megabytes <= MOST_MB
    mark = "" if fine else "  <-- too much" if process.returncode == 0 else "  <-- failed"
    print(f"{label:22} {seconds:6.1f} s  {megabytes:6.0f} MB{mark}", flush=True)
    return fine


def _peak_megabytes(pid: int) -> float:
    """So far. The usage that `wait4` gives counts what this process had when it forked."""
    found = re.search(r"^VmHWM:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found[1]) / 1024 if found else 0.0


def measure(folder: Path, source: dict[str, str]) -> bool:
    """All commands in their order."""
    content, recipient = new_identity()
    identity, there = folder / "identity", str(folder / "there")
    identity.write_text(content)
    variables = {**source, "HUB_BACKUP_RECIPIENTS": f'["{recipient}"]', "HUB_BACKUP_DESTINATION": there}
    fine = [
        timed("backup", variables, "backup"),
        timed("second backup", variables, "backup"),
        timed("verify", variables, "backup", "--verify"),
        timed("verify with identity", variables, "backup", "--verify", "--identity", str(identity)),
    ]
    with own_services("bench_restored") as target:
        elsewhere = {**variables, **target, "HUB_DATA": str(folder / "restored")}
        fine.append(timed("restore", elsewhere, "restore", "--identity", str(identity)))
    return all(fine)


def main() -> int:
    """Seed, measure, drop."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rollouts", type=int, default=1_000_000)
    parser.add_argument("--blobs", type=int, default=10_000)
    arguments = parser.parse_args()
    setup_test_environment()
    home = str(connection.settings_dict["NAME"])
    connection.settings_dict["TEST"]["NAME"] = f"bench_hub_{os.getpid()}_backup"
    name = connection.creation.create_test_db(verbosity=0, serialize=False)
    try:
        seed(arguments.rollouts, arguments.blobs)
        connection.close()
        url = f"{tests.backends.DATABASE_URL.rpartition('/')[0]}/{name}"
        with tempfile.TemporaryDirectory(prefix="bench-backup-") as folder:
            return 0 if measure(Path(folder), {"HUB_DATABASE_URL": url}) else 1
    finally:
        connection.creation.destroy_test_db(home, verbosity=0)


if __name__ == "__main__":
    sys.exit(main())
