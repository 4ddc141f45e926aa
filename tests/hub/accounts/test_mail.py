"""HUB_MAIL_URL in words and deeds: what Django makes of it, and what the doctor says of its server."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest
from pytest_django import Settings

from hub.api.doctor.mail import look_at_mail
from hub.config.mail import parse


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("smtp+tls://a%40b:p%3Aw@mail.example.org", {"port": 587, "starttls": True, "user": "a@b", "password": "p:w"}),
        ("smtps://mail.example.org:4650", {"port": 4650, "tls": True, "starttls": False, "user": ""}),
        ("smtp://mail.example.org", {"port": 25, "tls": False, "starttls": False, "host": "mail.example.org"}),
        ("file:/var/mail/hub", {"directory": "/var/mail/hub"}),
        ("console:", {"backend": "django.core.mail.backends.console.EmailBackend"}),
        ("", {"backend": "django.core.mail.backends.dummy.EmailBackend"}),
    ],
)
def test_a_mail_url_says_everything(url: str, expected: dict[str, Any]) -> None:
    found = parse(url)._asdict()
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize(
    "url", ["mail.example.org", "smtp://", "https://a:pass-word@host", "file:", "smtp://a:pass-word#1@host"]
)
def test_a_bad_one_names_the_forms_and_hides_the_password(url: str) -> None:
    with pytest.raises(ValueError, match="smtp") as refused:
        parse(url)
    assert "pass-word" not in str(refused.value)


def test_the_doctor_says_whether_the_server_answers(settings: Settings) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    with socket.create_server(("127.0.0.1", 0)) as server:
        settings.EMAIL_HOST, settings.EMAIL_PORT = server.getsockname()

        def answer() -> None:
            with server.accept()[0] as connection:
                connection.sendall(b"220 here\r\n")
                while line := connection.recv(1000):
                    connection.sendall(b"221 bye\r\n" if line.startswith(b"quit") else b"250 ok\r\n")

        threading.Thread(target=answer, daemon=True).start()
        assert [finding.level for finding in look_at_mail("smtp://x")] == ["ok"]
    (finding,) = look_at_mail("smtp://x")
    assert (finding.level, "HUB_MAIL_URL" in finding.mend) == ("failure", True)
    assert list(look_at_mail("")) == []
