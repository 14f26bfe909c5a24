"""The database dies and comes back while clients commit: what each of them was told is what is there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from server.store.schema import upgrade_schema
from server.store.session import open_engine
from tests.databases import open_database
from tests.postgres_fixtures import PostgresServer, postgres_server
from tests.server.lake import PLAIN, Lake, a_lake
from tests.server.storedfiles import nobodys_files

pytestmark = pytest.mark.postgres

TABLE = "/iceberg/v1/lake/namespaces/db/tables/plain"
CRASHES = 3
CLIENTS = 4


@pytest.fixture
def mortal() -> Iterator[PostgresServer]:
    with postgres_server(survives_crashes=True) as server:
        yield server


@pytest.fixture
def lake(mortal: PostgresServer, tmp_path: Path) -> Iterator[Lake]:
    url = mortal.url(mortal.new_database())
    engine = open_engine(url)
    upgrade_schema(engine)
    engine.dispose()
    with open_database(url) as opened:
        yield a_lake(opened.database, tmp_path)


def test_three_answers_are_three_truths(mortal: PostgresServer, lake: Lake) -> None:
    """200 is there for ever, 409 is not there and has left no file, and only of a 5xx nobody knows."""
    lake.create(PLAIN, **{"write.metadata.previous-versions-max": "100000"})
    ids_by_status: dict[int, set[str]] = defaultdict(set)
    crashes = [0]

    def client(number: int) -> dict[int, set[str]]:
        mine: dict[int, set[str]] = defaultdict(set)
        step = 0
        while crashes[0] < CRASHES or not mine[200]:
            key, step = f"k-{number}-{step}", step + 1
            mine[committed(lake, key).status_code].add(key)
        return mine

    committed(lake, "first")  # before threads do: it makes the client
    with ThreadPoolExecutor(CLIENTS) as pool:
        clients = [pool.submit(client, number) for number in range(CLIENTS)]
        for number in range(CRASHES):
            mortal.crash()
            mortal.start()
            while committed(lake, f"after-{number}").status_code != 200:
                continue
            crashes[0] += 1
        for writing in clients:
            for status, keys in writing.result().items():
                ids_by_status[status] |= keys
    kept = lake.metadata(PLAIN)["properties"].keys()
    assert ids_by_status.keys() <= {200, 409, 500}
    assert ids_by_status[200] <= kept
    assert not ids_by_status[409] & kept
    assert ids_by_status[409] | ids_by_status[500], "no commit has met the crashes"
    assert len(nobodys_files(lake)) <= len(ids_by_status[500])


def committed(lake: Lake, key: str) -> httpx.Response:
    body = {"requirements": [], "updates": [{"action": "set-properties", "updates": {key: "kept"}}]}
    answer = lake.client.post(TABLE, json=body)
    if answer.status_code >= 500:
        assert answer.json()["error"]["type"] == "CommitStateUnknownException", answer.text
    return answer
