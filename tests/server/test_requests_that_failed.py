"""What random requests have found, each by itself."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.databases import OpenDatabase
from tests.server.guarded import client_of, guarded
from tests.server.listening import listening


@pytest.fixture
def http(opened_sqlite: OpenDatabase, tmp_path: Path) -> Iterator[httpx.Client]:
    server = guarded(opened_sqlite.database, tmp_path)
    with listening(server.app) as url, client_of(url, server.admin) as client:
        yield client


@pytest.mark.parametrize("body", [{"set": None}, {"set": 1, "remove": None}, {"remove": 5}, {"set": [["a"]]}], ids=str)
def test_settings_of_a_catalog_in_a_wrong_shape_are_malformed(http: httpx.Client, body: Any) -> None:
    """The guard looks for settings of storage before the route has checked what there is."""
    answer = http.patch("/api/v1/catalogs/lake/properties", json=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "malformed")


@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("/iceberg/v1/lake/namespaces/secret/tables/a%0Ab", 400),
        ("/api/v1/catalogs/lake/tables/secret.a%0Ab", "invalid"),
    ],
)
def test_a_newline_in_a_name_is_refused_in_the_words_of_the_api(http: httpx.Client, path: str, code: object) -> None:
    """To a pattern of paths it can be the end of the path: the request would reach no API at all."""
    answer = http.get(path)
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] == code
