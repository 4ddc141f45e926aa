"""`python -m workers.tasks.alive`: does the worker of WORKER_DATA live? For probes of Kubernetes; status 1 if not.

It asks the host process, which answers whether or not the hub and the broker can be reached: a restart would not help
against that. Standard library only, since it is started every minute.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

SECONDS = 10.0


def is_alive(data: Path, seconds: float = SECONDS) -> bool:
    """Whether the host process takes a connection and closes one that asks for nothing."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(seconds)
        try:
            connection.connect(str(data / "host.sock"))
            connection.shutdown(socket.SHUT_WR)
            return connection.recv(1) == b""
        except OSError:
            return False


if __name__ == "__main__":
    sys.exit(0 if is_alive(Path(os.environ.get("WORKER_DATA", "data/worker"))) else 1)
