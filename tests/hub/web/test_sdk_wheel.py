"""The hub serves its own command line as a wheel."""

from __future__ import annotations

import hashlib
import io
import zipfile

import pytest
from django.test import Client
from django.urls import reverse


def test_the_wheel_has_the_command_and_its_requirements(client: Client) -> None:
    reply = client.get(reverse("cli-wheel"))
    assert reply["ETag"] == f'"{hashlib.sha256(reply.content).hexdigest()}"'
    with zipfile.ZipFile(io.BytesIO(reply.content)) as wheel:
        names = {name.rpartition("/")[2]: name for name in wheel.namelist() if ".dist-info/" in name}
        assert "hub = envhub.cli:hub" in wheel.read(names["entry_points.txt"]).decode()
        assert "Provides-Extra: cli" in wheel.read(names["METADATA"]).decode()
        assert "envhub/packaging/constraints.toml" in wheel.namelist()


def test_who_has_it_already_is_told_so(client: Client) -> None:
    etag = client.get(reverse("cli-wheel"))["ETag"]
    assert client.get(reverse("cli-wheel"), headers={"If-None-Match": etag}).status_code == 304


def test_an_address_without_a_version_leads_to_it(client: Client) -> None:
    assert client.get("/cli")["Location"] == reverse("cli-wheel")


@pytest.mark.django_db
def test_visitors_and_new_users_are_told_its_address(mallory: Client) -> None:
    wanted = f"envhub[cli] @ http://127.0.0.1:8000{reverse('cli-wheel')}"
    for browser in (Client(), mallory):
        assert wanted in browser.get("/").content.decode().replace("&quot;", '"')
