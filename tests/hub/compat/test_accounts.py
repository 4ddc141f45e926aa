"""`prime login`, `whoami`, `teams`, and secrets."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from django.test import Client
from django.utils import timezone

from hub.accounts.models import Role
from hub.accounts.services.devices import decide_device
from hub.secrets.services import reveal_for_run
from tests.factories.accounts import bearer, make_owner, make_user
from tests.hub.compat.prime_client import PrimeClient

pytestmark = pytest.mark.django_db
API = "/prime/api/v1"


def begin(pem: str) -> dict[str, str]:
    reply = Client().post(
        f"{API}/auth_challenge/generate", {"encryptionPublicKey": pem}, content_type="application/json"
    )
    assert reply.status_code == 200, reply.content
    answer: dict[str, str] = reply.json()
    return answer


def pem_of(key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.PEM, form).decode()


def test_a_sign_in_is_approved_in_the_browser_and_its_token_is_sealed_for_the_client() -> None:
    alice, key = make_user("alice"), rsa.generate_private_key(public_exponent=65537, key_size=2048)
    begun = begin(pem_of(key))
    page = Client().get("/prime/dashboard/tokens/challenge", {"code": begun["challenge"]})
    assert page["Location"] == f"/device?user_code={begun['challenge']}"
    headers = bearer(begun["status_auth_token"])
    status = f"{API}/auth_challenge/status?challenge={begun['challenge']}"
    assert Client().get(status, headers=headers).json() == {"result": None}
    decide_device(user=alice, user_code=begun["challenge"], approve=True, now=timezone.now())
    sealed = base64.b64decode(Client().get(status, headers=headers).json()["result"])
    oaep = padding.OAEP(mgf=padding.MGF1(hashes.SHA256()), algorithm=hashes.SHA256(), label=None)
    token = key.decrypt(sealed, oaep).decode()
    assert Client().get(f"{API}/user/whoami", headers=bearer(token)).json()["data"]["slug"] == "alice"
    assert Client().get(status, headers=headers).status_code == 404  # it is given once


def test_a_denied_sign_in_ends_and_a_forged_poll_is_nobodys() -> None:
    alice, key = make_user("alice"), rsa.generate_private_key(public_exponent=65537, key_size=2048)
    begun = begin(pem_of(key))
    decide_device(user=alice, user_code=begun["challenge"], approve=False, now=timezone.now())
    status = f"{API}/auth_challenge/status"
    denied = Client().get(status, headers=bearer(begun["status_auth_token"]))
    assert (denied.status_code, "denied" in denied.json()["detail"]) == (404, True)
    assert Client().get(status, headers=bearer("x" + begun["status_auth_token"])).status_code == 401
    assert Client().get(status).status_code == 401


def test_only_a_key_that_hides_something_is_taken() -> None:
    small = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    for pem in ("no key", pem_of(small), pem_of(ec.generate_private_key(ec.SECP256R1())), "x" * 10_000):
        reply = Client().post(
            f"{API}/auth_challenge/generate", {"encryptionPublicKey": pem}, content_type="application/json"
        )
        assert reply.status_code == 422
        assert "encryptionPublicKey" in reply.json()["detail"]


def test_who_i_am_and_my_teams() -> None:
    alice = make_user("alice")
    make_owner("lab", members=[alice, make_user("carol")], role=Role.OWNER)
    make_owner("others")
    prime = PrimeClient(alice)
    assert prime.done("get", "user/whoami")["scope"]["environments"] == {"read": True, "write": True}
    teams = prime.call("get", "user/teams").json()
    assert [(team["teamId"], team["role"]) for team in teams["data"]] == [
        ("lab", "ADMIN")
    ]  # the client knows no owners
    assert teams["total_count"] == 1
    assert {row["userName"] for row in prime.done("get", "teams/lab/members")} == {"alice", "carol"}
    assert prime.call("get", "teams/others/members").status_code == 404
    assert prime.call("patch", "user/slug", {"slug": "new"}).status_code == 403
    assert Client().get(f"{API}/user/whoami").status_code == 401


def test_secrets_go_in_and_never_come_out() -> None:
    alice = make_user("alice")
    prime = PrimeClient(alice)
    made = prime.done("post", "secrets/", {"name": "SEARCH_KEY", "value": "hidden-1", "isFile": False})
    assert made["id"] == "alice.SEARCH_KEY"
    prime.done("patch", "secrets/alice.SEARCH_KEY", {"value": "hidden-2"})
    assert reveal_for_run(alice.owner, ["SEARCH_KEY"]) == {"SEARCH_KEY": "hidden-2"}
    for path in ("secrets/", "secrets/alice.SEARCH_KEY"):
        assert "hidden" not in prime.call("get", path).content.decode()
    assert prime.call("patch", "secrets/alice.SEARCH_KEY", {"name": "OTHER", "value": "x"}).status_code == 422
    assert prime.call("post", "secrets/", {"name": "F", "value": "x", "isFile": True}).status_code == 422
    assert PrimeClient(make_user("bob")).call("get", "secrets/alice.SEARCH_KEY").status_code == 404
    prime.done("delete", "secrets/alice.SEARCH_KEY")
    assert prime.done("get", "secrets/") == []
