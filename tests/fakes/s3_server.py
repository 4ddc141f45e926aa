"""A real S3 server process for tests: moto over HTTP, with one empty bucket."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

import boto3

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
REGION = "us-east-1"
START_S = 60.0


@contextmanager
def s3_server(bucket: str, port: int | None = None) -> Iterator[str]:
    """Its URL; the server ends with the context, or with this process."""
    port = port or _free_port()
    command = ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m", "moto.server", "-H", "127.0.0.1"]
    process = subprocess.Popen([*command, "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        url = f"http://127.0.0.1:{port}"
        _wait_for(f"{url}/moto-api/", process)
        client = boto3.session.Session().client(
            "s3",
            endpoint_url=url,
            region_name=REGION,
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )
        client.create_bucket(Bucket=bucket)
        client.close()
        yield url
    finally:
        os.kill(process.pid, signal.SIGTERM)
        process.wait(timeout=10)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise RuntimeError("moto's server does not start")
