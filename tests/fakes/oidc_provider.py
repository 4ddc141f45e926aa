"""An OpenID Connect provider that approves whoever asks: `with OidcProvider(person) as provider: provider.issuer`.

It serves discovery, keys, authorization (with PKCE), tokens that are signed with its own key, and userinfo.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

CLIENT, SECRET, KEY_ID = "hub", "hub-secret", "key-1"


@dataclass
class OidcProvider:
    """`person` is what it says of whoever signs in: sub, email, email_verified, preferred_username."""

    person: dict[str, Any]
    audience: str = CLIENT  # of the ID tokens
    codes: dict[str, dict[str, str]] = field(default_factory=dict)

    def __enter__(self) -> Self:
        handler = type("Handler", (_Handler,), {"fake": self})
        self._key = _key()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def issuer(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def discovery(self) -> dict[str, Any]:
        names = ("authorization", "token", "userinfo")
        return {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys"} | {
            f"{name}_endpoint": f"{self.issuer}/{name}" for name in names
        }

    def keys(self) -> dict[str, Any]:
        return {"keys": [RSAAlgorithm.to_jwk(self._key.public_key(), as_dict=True) | {"kid": KEY_ID, "alg": "RS256"}]}

    def approve(self, asked: dict[str, str]) -> str:
        """Where the browser goes back to."""
        code = secrets.token_hex(8)
        self.codes[code] = asked
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}"

    def tokens(self, form: dict[str, str]) -> dict[str, Any] | None:
        """Once for each code, to the client alone, with the verifier of its challenge."""
        asked = self.codes.pop(form.get("code", ""), {})
        digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
        if not asked or form.get("client_secret") != SECRET or asked.get("code_challenge") != challenge:
            return None
        now = int(time.time())
        claims = self.person | {"iss": self.issuer, "aud": self.audience, "iat": now, "exp": now + 60}
        id_token = jwt.encode(claims, self._key, "RS256", {"kid": KEY_ID})
        return {"access_token": "access", "token_type": "Bearer", "id_token": id_token}


@cache
def _key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


class _Handler(BaseHTTPRequestHandler):
    fake: OidcProvider

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if parts.path == "/authorization":
            self.send_response(302)
            asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
            self.send_header("Location", self.fake.approve(asked))
            self.end_headers()
            return
        answers = {"/.well-known/openid-configuration": self.fake.discovery, "/keys": self.fake.keys}
        self._answer(answers.get(parts.path, lambda: self.fake.person)())

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        found = self.fake.tokens({name: values[0] for name, values in parse_qs(body).items()})
        self._answer(found or {"error": "invalid_grant"}, 200 if found else 400)

    def _answer(self, found: dict[str, Any], status: int = 200) -> None:
        data = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        """Silent."""
