"""`python -m workers`: start a worker. It becomes `celery --app workers --quiet worker`."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    command = [sys.executable, "-m", "celery", "--app", "workers", "--quiet", "worker", *sys.argv[1:]]
    os.execv(sys.executable, command)  # noqa: S606  this interpreter
