"""Loading tables: whole, with the snapshots of refs alone, compressed, known already."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from catalog.ports.store import Database
from tests.factories import LAKE
from tests.server.lake import BASE, ORDERS, PLAIN, Lake, a_lake, altered

TABLE = "/iceberg/v1/lake/namespaces/db/tables/plain"
GZIP = {"Accept-Encoding": "gzip, deflate"}
PLAINLY = {"Accept-Encoding": "identity"}


@pytest.fixture
def lake(database: Database, tmp_path: Path) -> Lake:
    lake = a_lake(database, tmp_path)
    lake.create()
    return lake


def tag(lake: Lake, name: str, snapshot_id: int) -> None:
    ref = {"action": "set-snapshot-ref", "ref-name": name, "type": "tag", "snapshot-id": snapshot_id}
    lake.commit(altered(PLAIN, ref))


def test_refs_alone_are_the_snapshots_that_branches_and_tags_hold(lake: Lake) -> None:
    ids = [lake.append(PLAIN) for _ in range(5)]
    tag(lake, "v1", ids[1])
    whole = lake.client.get(TABLE).json()
    part = lake.client.get(f"{TABLE}?snapshots=refs").json()
    assert [snapshot["snapshot-id"] for snapshot in whole["metadata"]["snapshots"]] == ids
    assert [snapshot["snapshot-id"] for snapshot in part["metadata"]["snapshots"]] == [ids[1], ids[4]]
    assert {**part["metadata"], "snapshots": 0} == {**whole["metadata"], "snapshots": 0}
    lake.append(PLAIN)
    assert len(lake.client.get(f"{TABLE}?snapshots=refs").json()["metadata"]["snapshots"]) == 2


def test_a_pinned_table_has_one_snapshot_either_way(lake: Lake) -> None:
    lake.create_keyed()
    lake.append(BASE)
    pinned = lake.services.keyed.pin(LAKE, ORDERS).base_name
    path = f"/iceberg/v1/lake/namespaces/db%1Forders/tables/{pinned}"
    whole, part = lake.client.get(path).json(), lake.client.get(f"{path}?snapshots=refs").json()
    assert whole["metadata"] == part["metadata"]
    assert len(part["metadata"]["snapshots"]) == 1


def test_a_write_to_a_pinned_table_was_tried_again_and_again(lake: Lake) -> None:
    """Engines repeat a commit that is answered 409."""
    lake.create_keyed()
    path = f"/iceberg/v1/lake/namespaces/db%1Forders/tables/{lake.services.keyed.pin(LAKE, ORDERS).base_name}"
    refused = lake.client.post(path, json={"requirements": [], "updates": []})
    assert refused.status_code == 400
    message = refused.json()["error"]["message"]
    assert "is a past state of the keyed table db.orders, and nobody can change it" in message
    assert "write to db.orders itself" in message


def test_a_large_answer_is_compressed_for_who_takes_that(lake: Lake) -> None:
    for _ in range(60):
        lake.append(PLAIN)
    plain = lake.client.get(TABLE, headers=PLAINLY)
    packed = lake.client.get(TABLE, headers=GZIP)
    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.headers["etag"] == plain.headers["etag"]
    assert packed.content == plain.content
    assert int(packed.headers["content-length"]) < len(plain.content) / 4
    lake.append(PLAIN)
    assert lake.client.get(TABLE, headers=GZIP).json() == lake.client.get(TABLE, headers=PLAINLY).json()


@pytest.mark.parametrize("accepted", ["", "identity", "gzip;q=0", "gzip; q=0.0", "br", "deflate"])
def test_nothing_is_compressed_for_who_does_not_take_it(lake: Lake, accepted: str) -> None:
    for _ in range(60):
        lake.append(PLAIN)
    answer = lake.client.get(TABLE, headers={"Accept-Encoding": accepted})
    assert "content-encoding" not in answer.headers
    with pytest.raises(gzip.BadGzipFile):
        gzip.decompress(answer.content)


def test_a_client_that_has_it_is_told_so(lake: Lake) -> None:
    lake.append(PLAIN)
    etag = lake.client.get(TABLE, headers=GZIP).headers["etag"]
    for known in (etag, f'W/"other", {etag}'):
        answer = lake.client.get(TABLE, headers={"If-None-Match": known})
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", etag)
    assert lake.client.get(f"{TABLE}?snapshots=refs", headers={"If-None-Match": etag}).status_code == 200
    lake.append(PLAIN)
    assert lake.client.get(TABLE, headers={"If-None-Match": etag}).status_code == 200


def test_a_created_and_a_committed_table_has_the_tag_that_loading_it_gives(lake: Lake) -> None:
    body = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "1"}}]}
    answer = lake.client.post(TABLE, json=body)
    assert answer.headers["etag"] == lake.client.get(TABLE).headers["etag"]


def test_a_table_whose_metadata_was_removed_says_so_though_it_was_loaded_before(lake: Lake) -> None:
    location = lake.client.get(TABLE).json()["metadata-location"]
    Path(location.removeprefix("file://")).unlink()
    answer = lake.client.get(TABLE)
    assert (answer.status_code, answer.json()["error"]["type"]) == (404, "NotFoundException")
    assert answer.json()["error"]["message"].startswith(f"Failed to open input stream for file: {location}")
