"""A Redis server of a test's own, which it may kill."""

from __future__ import annotations

import socket
import subprocess
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


class RedisServer:
    """A context manager. After `kill` everything in it is lost.

    encrypted: it speaks only TLS, with a certificate of its own authority, which `url` names.
    """

    def __init__(self, folder: Path, *options: str, encrypted: bool = False) -> None:
        folder.mkdir()
        self._folder = folder
        self._options = options
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port: int = probe.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._listening: tuple[str, ...] = ("--port", str(self.port))
        if encrypted:
            certificate, key = own_certificate(folder)
            self.url = f"rediss://127.0.0.1:{self.port}/0?ssl_cert_reqs=required&ssl_ca_certs={certificate}"
            self._listening = ("--port", "0", "--tls-port", str(self.port), "--tls-auth-clients", "no")
            self._listening += ("--tls-cert-file", str(certificate), "--tls-key-file", str(key))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Start it and wait until it answers."""
        options = [*self._listening, "--bind", "127.0.0.1", "--save", "", "--dir", str(self._folder)]
        options += self._options
        self._process = subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL)
        for _ in range(100):
            with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.05)
        raise RuntimeError("redis-server did not start")

    def kill(self) -> None:
        """As kill -9."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def own_certificate(folder: Path) -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, secret = folder / "certificate.pem", folder / "key.pem"
    certificate.write_bytes(made.public_bytes(Encoding.PEM))
    secret.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return certificate, secret
