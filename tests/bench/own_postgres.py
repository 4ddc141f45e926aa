"""A benchmark on a Postgres server of its own: `python -m tests.bench.own_postgres bench_rows [arguments]`."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.fakes.postgres_server import PostgresServer, server_folder

SETTINGS = {"max_wal_size": "8GB", "maintenance_work_mem": "512MB", "synchronous_commit": "off", "autovacuum": "off"}


def main() -> int:
    """The benchmark's exit status."""
    name, *arguments = sys.argv[1:]
    with server_folder() as folder:
        server = PostgresServer(folder, **SETTINGS)
        server.create()
        try:
            environment = {**os.environ, "TEST_DATABASE_URL": server.url}
            command = [sys.executable, "-m", f"tests.bench.{name}", *arguments]
            return subprocess.run(command, env=environment, check=False).returncode
        finally:
            server.stop()


if __name__ == "__main__":
    sys.exit(main())
