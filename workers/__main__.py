"""`python -m workers`: start a worker. The same as `celery -A workers --quiet worker`."""

from __future__ import annotations

import sys

from celery.bin.celery import celery

if __name__ == "__main__":
    celery.main(args=["--app", "workers", "--quiet", "worker", *sys.argv[1:]], prog_name="celery")
