"""What browsers are told about every answer, with access control and without."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from server.app import create_app
from server.background.registry import build_background
from server.console import built_console
from server.container import build_services
from server.security_headers import console_policy
from server.settings import AccessSettings, Settings
from tests.databases import OpenDatabase
from tests.server.asgi import Client

ANSWERS = [
    ("GET", "/"),
    ("GET", "/docs"),
    ("GET", "/assets/nothing.js"),
    ("GET", "/healthz"),
    ("GET", "/metrics"),
    ("GET", "/api/v1/openapi.json"),
    ("GET", "/api/v1/nothing"),
    ("POST", "/api/v1/catalogs"),
    ("GET", "/iceberg/v1/config"),
    ("GET", "/iceberg/v1/lake/namespaces/db/tables/missing"),
    ("POST", "/iceberg/v1/oauth/tokens"),
]


@pytest.mark.parametrize("enabled", [False, True])
def test_every_answer_says_what_browsers_may_do_with_it(
    opened_sqlite: OpenDatabase, tmp_path: Path, *, enabled: bool
) -> None:
    settings = Settings(data_dir=tmp_path / "data", access=AccessSettings(enabled=enabled))
    services = build_services(settings, opened_sqlite.database)
    client = Client(create_app(settings, services, build_background(settings, services)))
    for method, path in [*ANSWERS, ("GET", "/?refused")]:
        headers = {"host": "evil.example"} if path.endswith("refused") else {}
        answer_headers = client.request(method, path, headers=headers).headers
        assert answer_headers["x-content-type-options"] == "nosniff", path
        assert answer_headers["x-frame-options"] == "DENY", path
        assert answer_headers["referrer-policy"] == "no-referrer", path
        policy = answer_headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy, path
        assert policy.startswith("default-src 'none'"), path
        assert "script-src 'self';" in policy or "script-src" not in policy, path


def test_only_an_issuer_is_asked_besides_the_server() -> None:
    assert "connect-src 'self';" in console_policy(None)
    policy = console_policy("http://127.0.0.1:9000/realms/a;b")
    assert "connect-src 'self' http://127.0.0.1:9000 https:;" in policy


@pytest.mark.parametrize("page", ["index.html", "docs.html"])
def test_the_pages_hold_no_script_and_name_no_other_host(page: str) -> None:
    root = built_console()
    assert root is not None, "the console is not built: make console"
    text = (root / page).read_text(encoding="utf-8")
    assert re.findall(r"<script(?![^>]*\bsrc=)", text) == []
    assert re.findall(r"""(?:src|href)=["'](?!/)""", text) == []
    assert re.findall(r"\son\w+=", text) == []
