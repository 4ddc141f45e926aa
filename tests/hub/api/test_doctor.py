"""`manage.py doctor` finds what is wrong, says what mends it, and fails when something does not work."""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.utils import timezone
from envhub import __version__
from envhub.protocol.runs import WorkerFacts
from envhub.proxies import VARIABLES
from pydantic import HttpUrl

from hub.api.doctor import Finding, parts
from hub.api.doctor.backups import look_at_backups
from hub.api.doctor.certificate import look_at_certificate
from hub.api.doctor.database import look_at_database
from hub.api.doctor.fleet import look_at_fleet
from hub.api.doctor.host import look_at_host, look_at_sandbox
from hub.api.doctor.outside import look_at_proxy
from hub.api.doctor.parts import look_at_broker, look_at_storage
from hub.api.doctor.setup import look_at_settings
from hub.backups.models import LastBackup
from hub.core.errors import Unavailable
from hub.core.queue import celery_app
from hub.data import reach
from hub.runs.models import Run, Worker
from hub.runs.tokens import EMBEDDED_TOKEN_FILE
from hub.storage.backends.s3 import S3Backend
from hub.storage.queries import backend
from tests.factories.runs import hold_run, make_run, make_worker
from tests.fakes.s3_server import CREDENTIALS, REGION, s3_server

ROOT = Path(__file__).parents[3]
PUBLIC = {"base_url": HttpUrl("https://hub.example.org"), "secrets_keys": ["k"], "outbound_allow_loopback": False}


def levels(findings: Iterator[Finding]) -> dict[str, str]:
    found = list(findings)
    assert all(bool(one.mend) == (one.level != "ok") and "\n" not in one.mend for one in found)
    return {one.subject: one.level.value for one in found}


@pytest.mark.django_db
def test_a_healthy_database_is_well_in_every_respect() -> None:
    clock = {"clock": "ok"} if connection.vendor == "postgresql" else {}
    assert levels(look_at_database()) == {"database": "ok", "migrations": "ok"} | clock


@pytest.mark.django_db
def test_a_missing_migration_and_one_of_a_newer_hub_are_failures() -> None:
    newest = MigrationRecorder.Migration.objects.filter(app="runs").latest("name")
    newest.delete()
    assert levels(look_at_database())["migrations"] == "failure"
    MigrationRecorder.Migration.objects.create(app="runs", name=newest.name)
    MigrationRecorder.Migration.objects.create(app="runs", name="9999_of_tomorrow")
    (finding,) = [one for one in look_at_database() if one.subject == "migrations"]
    assert (finding.level, "runs.9999_of_tomorrow" in finding.says) == ("failure", True)


def test_storage_is_tried_and_left_as_it_was() -> None:
    before = {item.sha256 for item in backend().every()}
    assert levels(look_at_storage()) == {"storage": "ok"}
    assert {item.sha256 for item in backend().every()} == before


def test_storage_that_cannot_be_written_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "blobs").write_text("no directory")
    monkeypatch.setattr(backend(), "root", tmp_path / "blobs")
    assert levels(look_at_storage()) == {"storage": "failure"}


@pytest.fixture(scope="module")
def s3_url() -> Iterator[str]:
    with pytest.MonkeyPatch.context() as monkeypatch, s3_server("hub") as url:
        for name, value in CREDENTIALS.items():
            monkeypatch.setenv(name, value)
        yield url


def on_s3(monkeypatch: pytest.MonkeyPatch, url: str, *, bucket: str = "hub", public: str = "") -> S3Backend:
    """The hub's storage."""
    monkeypatch.setattr(settings, "HUB", settings.HUB.model_copy(update={"storage": "s3"}))
    store = S3Backend(bucket=bucket, region=REGION, endpoint_url=url, public_endpoint_url=public)
    monkeypatch.setattr(parts, "backend", lambda: store)
    return store


def test_objects_are_read_back_as_the_hub_and_as_users_do(monkeypatch: pytest.MonkeyPatch, s3_url: str) -> None:
    store = on_s3(monkeypatch, s3_url)
    assert levels(look_at_storage()) == {"storage": "ok", "downloads": "ok"}
    assert list(store.every()) == []


def test_a_wrong_bucket_or_place_of_the_storage_is_named_with_its_mend(
    monkeypatch: pytest.MonkeyPatch, s3_url: str
) -> None:
    store = on_s3(monkeypatch, s3_url, bucket="nope")
    (finding,) = look_at_storage()
    assert (finding.level, "NoSuchBucket" in finding.says) == ("failure", True)
    assert finding.mend == "create the bucket, or set HUB_S3_BUCKET right"
    with pytest.raises(Unavailable, match="HUB_S3_BUCKET does not exist"):
        store.check()  # what /readyz tells
    on_s3(monkeypatch, "http://127.0.0.1:9")
    (finding,) = look_at_storage()
    assert "Could not connect to the endpoint URL" in finding.says
    assert finding.mend == "start it, or set HUB_S3_ENDPOINT_URL right"


@pytest.mark.parametrize(
    ("code", "words"),
    [("RequestTimeTooSkewed", "by NTP"), ("SignatureDoesNotMatch", "AWS_SECRET_ACCESS_KEY"), ("Odd", "HUB_S3_*")],
)
def test_what_the_storage_refuses_has_its_own_mend(monkeypatch: pytest.MonkeyPatch, code: str, words: str) -> None:
    """A test server looks at no clock and no signature: this one refuses like those that do."""
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with answering_with(f"<Error><Code>{code}</Code></Error>", 403) as url:
        on_s3(monkeypatch, url)
        (finding,) = look_at_storage()
    assert (finding.level, code in finding.says, words in finding.mend) == ("failure", True, True)


def test_lacking_credentials_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CREDENTIALS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    on_s3(monkeypatch, "http://127.0.0.1:9")
    (finding,) = look_at_storage()
    assert (finding.says.endswith("Unable to locate credentials"), finding.mend) == (True, parts.KEYS)


def test_an_address_that_users_cannot_download_from_is_a_warning(monkeypatch: pytest.MonkeyPatch, s3_url: str) -> None:
    on_s3(monkeypatch, s3_url, public="http://127.0.0.1:9")
    assert levels(look_at_storage()) == {"storage": "ok", "downloads": "warning"}
    with answering_with("SignatureDoesNotMatch", 403) as url:
        on_s3(monkeypatch, s3_url, public=url)
        *_, finding = look_at_storage()
    assert (finding.level, "403" in finding.says, "Host header" in finding.mend) == ("warning", True, True)


@contextmanager
def answering_with(text: str, status: int) -> Iterator[str]:
    """A server that says only this."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        do_PUT = do_DELETE = do_GET

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_why_the_broker_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    hub = settings.HUB.model_copy(update={"broker_url": "redis://:geheim@127.0.0.1:9/0"})
    monkeypatch.setattr(settings, "HUB", hub)
    celery_app.cache_clear()
    try:
        (finding,) = look_at_broker()
    finally:
        celery_app.cache_clear()
    assert (finding.level, "127.0.0.1:9" in finding.says, "geheim" in finding.says) == ("failure", True, False)


def test_the_broker_answers() -> None:
    assert levels(look_at_broker()) == {"broker": "ok"}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("cluster", "level", "says"),
    [({"hosts": [{"name": "a", "gpus": [80_000]}, {"name": "b"}]}, "ok", "gpu-0: hosts 2, GPUs 1"),
     ({"problem": "cluster unreachable"}, "warning", "gpu-0: cluster unreachable")],
)  # fmt: skip
def test_a_cluster_that_does_not_answer_is_found(cluster: dict[str, Any], level: str, says: str) -> None:
    make_worker()
    facts = WorkerFacts.model_validate({"cluster": cluster})
    Worker.objects.update(facts=facts.model_dump(mode="json"), name="gpu-0")
    found = {one.subject: one for one in look_at_fleet(timezone.now())}
    assert (found["clusters"].level, found["clusters"].says) == (level, says)


@pytest.mark.django_db
def test_workers_of_another_release_and_leases_that_nobody_ends_are_found() -> None:
    now = timezone.now()
    assert levels(look_at_fleet(now)) == {"sweeper": "ok", "workers": "warning"}
    worker = make_worker()
    assert levels(look_at_fleet(now))["versions"] == "warning"
    gpu = {"index": 0, "uuid": "GPU-1", "name": "H100", "memory_mb": 80_000, "free_mb": 80_000}
    facts = WorkerFacts.model_validate({"version": __version__, "gpus": [gpu]})
    Worker.objects.update(facts=facts.model_dump(mode="json"))
    found = {one.subject: one for one in look_at_fleet(now)}
    assert (found["versions"].level, found["gpus"].says) == ("ok", f"{worker.name}: 1 x H100")
    assert "clusters" not in found
    hold_run(make_run(), worker=worker)
    Run.objects.update(lease_expires_at=now - timedelta(minutes=5))
    assert levels(look_at_fleet(now))["sweeper"] == "failure"


@pytest.mark.django_db
def test_a_backup_that_is_old_or_was_never_made_is_a_warning_where_one_is_meant_to_be() -> None:
    now = timezone.now()
    assert levels(look_at_backups("", now)) == {}
    assert levels(look_at_backups("/there", now)) == {"backup": "warning"}
    LastBackup.objects.create(destination="/there", backup="b", finished_at=now - timedelta(hours=30))
    assert levels(look_at_backups("/there", now)) == {"backup": "ok"}
    assert levels(look_at_backups("/there", now + timedelta(hours=20))) == {"backup": "warning"}


def test_the_host_and_a_sandbox_that_is_not_its_own(tmp_path: Path) -> None:
    assert set(levels(look_at_host(tmp_path))) == {"disk", "time"}
    assert levels(look_at_sandbox(tmp_path)) == {"sandbox": "ok"}


@pytest.mark.sandbox
def test_where_a_worker_is_embedded_a_box_is_made(tmp_path: Path) -> None:
    (tmp_path / EMBEDDED_TOKEN_FILE).touch()
    (finding,) = look_at_sandbox(tmp_path)
    assert (finding.level, finding.says[:5]) == ("ok", "bwrap")


@pytest.mark.parametrize(
    ("changes", "level"),
    [
        ({}, "ok"),
        ({"debug": True}, "failure"),
        ({"secret_key": "secret"}, "failure"),
        ({"secret_key": "a" * 64}, "failure"),
        ({"allowed_hosts": ["*"]}, "failure"),
        ({"base_url": HttpUrl("http://hub.example.org")}, "warning"),
        ({"secrets_keys": []}, "warning"),
        ({"outbound_allow_loopback": True}, "warning"),
        ({"base_url": HttpUrl("http://127.0.0.1:8000"), "secrets_keys": [], "outbound_allow_loopback": True}, "ok"),
    ],
)
def test_settings_are_judged_by_where_the_hub_is_reached(changes: dict[str, Any], level: str) -> None:
    hub = settings.HUB.model_copy(update={**PUBLIC, **changes})
    assert levels(look_at_settings(hub)) == {"settings": level}


@contextmanager
def showing(folder: Path, *, days: float, since_days: float = 90) -> Iterator[tuple[int, ssl.SSLContext]]:
    """A TLS server whose certificate is valid for so long, and what a client that trusts it uses."""
    now, key = datetime.now(UTC), ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now - timedelta(days=since_days))
    made = made.not_valid_after(now + timedelta(days=days))
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
    path = folder / "both.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(path)
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def once() -> None:
            plain, _ = listening.accept()
            try:
                server.wrap_socket(plain, server_side=True).close()
            except OSError:
                plain.close()

        thread = threading.Thread(target=once)
        thread.start()
        yield listening.getsockname()[1], ssl.create_default_context(cafile=str(path))
        thread.join(10)


@pytest.mark.parametrize("level", ["ok", "failure"])
def test_a_proxy_of_the_network_is_tried_without_telling_its_password(
    monkeypatch: pytest.MonkeyPatch, level: str
) -> None:
    reach.forget()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        if level == "failure":
            listener.close()
        for name in ("HTTPS_PROXY", "HTTP_PROXY"):
            monkeypatch.setenv(name, f"http://hub:secret@127.0.0.1:{port}")
        (found,) = look_at_proxy()
    assert (found.level.value, "secret" in found.says, f"127.0.0.1:{port}" in found.says) == (level, False, True)


def test_without_a_proxy_there_is_nothing_to_say(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert not list(look_at_proxy())


@pytest.mark.parametrize(("days", "level"), [(60, "ok"), (5, "warning"), (-1, "failure")])
def test_a_certificate_is_judged_by_the_days_that_it_has_left(tmp_path: Path, days: int, level: str) -> None:
    with showing(tmp_path, days=days) as (port, trusting):
        url = HttpUrl(f"https://localhost:{port}")
        assert levels(look_at_certificate(url, datetime.now(UTC), trusting)) == {"certificate": level}


@pytest.mark.parametrize(("hours", "level"), [(5, "ok"), (2, "warning")])
def test_a_certificate_for_twelve_hours_is_judged_by_its_own_length(tmp_path: Path, hours: int, level: str) -> None:
    with showing(tmp_path, days=hours / 24, since_days=(12 - hours) / 24) as (port, trusting):
        url = HttpUrl(f"https://localhost:{port}")
        (finding,) = look_at_certificate(url, datetime.now(UTC), trusting)
    assert (finding.level, finding.says) == (level, f"valid for {hours - 1} hours")


def test_a_certificate_that_nobody_trusts_is_a_failure(tmp_path: Path) -> None:
    with showing(tmp_path, days=60) as (port, _):
        found = levels(look_at_certificate(HttpUrl(f"https://localhost:{port}"), datetime.now(UTC)))
    assert found == {"certificate": "failure"}


def test_an_http_address_has_no_certificate() -> None:
    assert levels(look_at_certificate(HttpUrl("http://localhost"), datetime.now(UTC))) == {}


@pytest.mark.django_db
def test_the_command_tells_every_finding_as_json() -> None:
    out = StringIO()
    call_command("doctor", "--json", stdout=out)
    told = json.loads(out.getvalue())
    assert told["ok"] is True
    subjects = {one["subject"] for one in told["findings"]}
    assert {"database", "migrations", "broker", "storage", "sweeper", "workers", "sandbox", "disk"} <= subjects


def test_without_its_database_the_command_fails_and_still_tells_the_rest(tmp_path: Path) -> None:
    environment = {**os.environ, "HUB_DATA": str(tmp_path), "HUB_DATABASE_URL": "postgresql://hub@127.0.0.1:1/hub"}
    command = [sys.executable, "manage.py", "doctor"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 1
    assert "failure  database" in done.stdout
    assert "-> start it, or set HUB_DATABASE_URL right" in done.stdout
    assert "ok       storage" in done.stdout
