"""The trial's parts start in any order: the hook that makes the bucket waits for the storage."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import boto3

from tests.fakes.s3_server import CREDENTIALS, REGION, s3_server
from tests.infra.chart.render import containers, render
from tests.infra.tools import needs_tools


@needs_tools
def test_the_bucket_is_made_once_the_storage_answers() -> None:
    made = containers(render({"trial": {"s3": {"enabled": True}}}))
    (script,) = [one["command"][2] for _, one, _ in made if one["name"] == "bucket"]
    with socket.create_server(("127.0.0.1", 0)) as early:
        port = early.getsockname()[1]
        where = {"HUB_S3_ENDPOINT_URL": f"http://127.0.0.1:{port}", "HUB_S3_REGION": REGION, "HUB_S3_BUCKET": "hub"}
        waiting = subprocess.Popen([sys.executable, "-c", script], env={**os.environ, **CREDENTIALS, **where})
        early.accept()[0].close()
    with s3_server("another", port) as url:
        assert waiting.wait(timeout=60) == 0
        keys = {key.lower(): value for key, value in CREDENTIALS.items()}
        client = boto3.session.Session().client("s3", endpoint_url=url, region_name=REGION, **keys)
        assert {one["Name"] for one in client.list_buckets()["Buckets"]} == {"another", "hub"}
        client.close()
