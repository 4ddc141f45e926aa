"""Postgres servers of a test's own, by Debian's programs: one that may be killed, and replicas to fail over to."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg

DEBIANS = Path("/usr/lib/postgresql")
USER, DATABASE = "hub", "hub"
START_S = 60.0
QUICK = {"max_connections": "200", "shared_buffers": "128MB", "wal_keep_size": "512MB"}


def programs() -> Path | None:
    """Where initdb and the others are; None where Postgres is not installed."""
    found = sorted(DEBIANS.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


class PostgresServer:
    """One data directory. Postgres refuses to be root: its files and processes are the user postgres' then."""

    def __init__(self, folder: Path, **settings: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port: int = probe.getsockname()[1]
        self.data = folder / f"postgres-{self.port}"
        self._settings = {**QUICK, **settings}
        self._pid = 0

    @property
    def host(self) -> str:
        """Its address, for a URL."""
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Of the postmaster, above all its processes."""
        return self._pid

    @property
    def url(self) -> str:
        """Of the hub's database on it alone."""
        return f"postgresql://{USER}@{self.host}/{DATABASE}"

    def create(self) -> None:
        """An empty cluster, started, with the hub's database."""
        self._run("initdb", "-D", str(self.data), "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N")
        self.start()
        with psycopg.connect(f"postgresql://{USER}@{self.host}/postgres", autocommit=True) as admin:
            admin.execute(f"CREATE DATABASE {DATABASE}")

    def follow(self, primary: PostgresServer) -> None:
        """A streaming replica of another, started; what was here before is lost."""
        shutil.rmtree(self.data, ignore_errors=True)
        source = f"host=127.0.0.1 port={primary.port} user={USER} application_name=replica"
        self._run("pg_basebackup", "-D", str(self.data), "-d", source, "-R", "-X", "stream", "-c", "fast")
        self.start()

    def start(self) -> None:
        """Start it and wait until it answers."""
        given = {
            "port": str(self.port),
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            **self._settings,
        }
        options = " ".join(f"-c {name}={value}" for name, value in given.items())
        log = str(self.data / "server.log")
        self._run("pg_ctl", "start", "-D", str(self.data), "-w", "-t", str(int(START_S)), "-l", log, "-o", options)
        self._pid = int((self.data / "postmaster.pid").read_text().split()[0])

    def stop(self) -> None:
        """An administrator's restart begins so: sessions are ended, the data directory is left whole."""
        with suppress(subprocess.CalledProcessError):
            self._run("pg_ctl", "stop", "-D", str(self.data), "-m", "fast", "-w")

    def kill(self) -> None:
        """kill -9 of the postmaster; its children see that and end."""
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        deadline = time.monotonic() + START_S
        while self._listens() and time.monotonic() < deadline:
            time.sleep(0.05)

    def promote(self) -> None:
        """Make the replica a primary that waits for nobody."""
        self._run("pg_ctl", "promote", "-D", str(self.data), "-w")

    def require_replica(self) -> None:
        """From now on no commit is answered before a replica has it, so that a failover loses nothing."""
        with psycopg.connect(self.url, autocommit=True) as admin:
            admin.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
            admin.execute("SELECT pg_reload_conf()")
            deadline = time.monotonic() + START_S
            while admin.execute("SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'").fetchone() is None:
                assert time.monotonic() < deadline, "no replica came"
                time.sleep(0.1)

    def _listens(self) -> bool:
        with suppress(psycopg.OperationalError):
            psycopg.connect(self.url, connect_timeout=2).close()
            return True
        return False

    def _run(self, program: str, *arguments: str) -> None:
        folder = programs()
        assert folder is not None, "Postgres is not installed"
        user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
        command = [*user, str(folder / program), *arguments]
        quiet = subprocess.DEVNULL  # a server keeps the descriptors of whoever started it
        subprocess.run(command, check=True, cwd="/", stdout=quiet, stderr=quiet, start_new_session=True)


@contextmanager
def server_folder() -> Iterator[Path]:
    """A directory that the servers' user may use, gone afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="postgres-"))
    try:
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres", "postgres")
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
