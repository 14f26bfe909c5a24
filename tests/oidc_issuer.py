"""An OpenID Connect issuer in its own process, with the routes that a server and a signing-in browser need.

Tests control it by more routes: they mint tokens, rotate keys, make it fail, and choose the person who signs in. It
counts the requests for its keys.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm


class State:
    """The issuer's keys, the newest last, and the settings that tests have sent."""

    def __init__(self) -> None:
        self.keys: list[tuple[str, str, Any]] = []
        self.failing = False
        self.key_requests = 0
        self.person: dict[str, Any] = {}
        self.codes: dict[str, dict[str, str]] = {}
        self.rotate("RS256")

    def rotate(self, algorithm: str, *, withdraw: bool = False) -> None:
        key: Any
        if algorithm == "RS256":
            key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        else:
            key = ec.generate_private_key(ec.SECP256R1())
        kept = [] if withdraw else self.keys
        self.keys = [*kept, (f"key-{time.monotonic_ns()}", algorithm, key)]

    def jwks(self) -> list[dict[str, Any]]:
        self.key_requests += 1
        makers: dict[str, Any] = {"RS256": RSAAlgorithm, "ES256": ECAlgorithm}
        return [
            {**makers[algorithm].to_jwk(key.public_key(), as_dict=True), "kid": kid, "use": "sig", "alg": algorithm}
            for kid, algorithm, key in self.keys
        ]

    def mint(self, claims: dict[str, Any]) -> str:
        kid, algorithm, key = self.keys[-1]
        return jwt.encode(claims, key, algorithm, headers={"kid": kid})


STATE = State()


class Handler(BaseHTTPRequestHandler):
    server: ThreadingHTTPServer

    def do_GET(self) -> None:
        url = f"http://127.0.0.1:{self.server.server_port}"
        known: dict[str, Callable[[], object]] = {
            "/.well-known/openid-configuration": lambda: {
                "issuer": url,
                "jwks_uri": f"{url}/jwks",
                "authorization_endpoint": f"{url}/authorize",
                "token_endpoint": f"{url}/token",
            },
            "/jwks": lambda: {"keys": STATE.jwks()},
            "/asked": lambda: {"asked": STATE.key_requests},
        }
        if STATE.failing and self.path != "/asked":
            self.send_error(500)
        elif self.path.startswith("/authorize?"):
            self._authorize(url)
        elif self.path in known:
            self._answer(known[self.path]())
        else:
            self.send_error(404)

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["content-length"]))
        if self.path == "/token":
            self._answer(self._redeem(_flat(content.decode())))
            return
        body = json.loads(content)
        if self.path == "/person":
            STATE.person = body
        elif self.path == "/mint":
            self._answer({"token": STATE.mint(body)})
            return
        elif self.path == "/rotate":
            STATE.rotate(body["algorithm"], withdraw=body["withdraw"])
        else:
            STATE.failing = body["failing"]
        self._answer({})

    def _authorize(self, url: str) -> None:
        """Redirect with a code, as if the person had signed in and agreed."""
        query = _flat(urlsplit(self.path).query)
        assert (query["response_type"], query["code_challenge_method"]) == ("code", "S256")
        code = secrets.token_urlsafe()
        STATE.codes[code] = {**query, "issuer": url}
        self.send_response(302)
        self.send_header("location", f"{query['redirect_uri']}?{urlencode({'code': code, 'state': query['state']})}")
        self.end_headers()

    def _redeem(self, form: dict[str, str]) -> object:
        """Return tokens for a code. A code works once, and only with the verifier of its challenge."""
        sign_in = STATE.codes.pop(form["code"])
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == sign_in["code_challenge"]
        assert form["redirect_uri"] == sign_in["redirect_uri"]
        now = int(time.time())
        claims = {**STATE.person, "iss": sign_in["issuer"], "iat": now, "exp": now + 600}
        return {
            "access_token": STATE.mint({**claims, "aud": "firn"}),
            "id_token": STATE.mint({**claims, "aud": sign_in["client_id"], "nonce": sign_in["nonce"]}),
            "token_type": "Bearer",
            "expires_in": 600,
        }

    def _answer(self, value: object) -> None:
        content = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("access-control-allow-origin", "*")
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing."""


def _flat(query: str) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(query).items()}


@dataclass(frozen=True)
class Issuer:
    """A running issuer, and the requests by which tests control it."""

    url: str
    http: httpx.Client

    def token(self, subject: str = "1", *, audience: str = "firn", lasts: float = 600, **claims: Any) -> str:
        now = int(time.time())
        standard = {"iss": self.url, "aud": audience, "sub": subject, "iat": now, "exp": now + int(lasts)}
        minted: str = self._order("mint", {**standard, **claims})["token"]
        return minted

    def rotate(self, algorithm: str = "RS256", *, withdraw: bool = False) -> None:
        self._order("rotate", {"algorithm": algorithm, "withdraw": withdraw})

    def sign_in_as(self, subject: str, **claims: Any) -> None:
        """Set the person who signs in from now on."""
        self._order("person", {"sub": subject, **claims})

    def fail(self, *, failing: bool) -> None:
        self._order("fail", {"failing": failing})

    @property
    def key_requests(self) -> int:
        """The number of requests for its keys."""
        count: int = self.http.get("/asked").json()["asked"]
        return count

    def _order(self, command: str, body: dict[str, Any]) -> dict[str, Any]:
        answer: dict[str, Any] = self.http.post(f"/{command}", content=json.dumps(body)).raise_for_status().json()
        return answer


@contextmanager
def issuer_process() -> Iterator[Issuer]:
    """Run an issuer on a free loopback port."""
    with subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().strip()
            with httpx.Client(base_url=url, trust_env=False, timeout=60) as http:
                yield Issuer(url, http)
        finally:
            process.terminate()
            process.wait(60)


if __name__ == "__main__":
    listening = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{listening.server_port}", flush=True)  # noqa: T201 (the test reads the address)
    listening.serve_forever()
