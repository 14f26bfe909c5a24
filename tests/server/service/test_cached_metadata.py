"""Metadata files in memory: the bound holds whatever tables do, and no version stays that a commit has replaced."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import orjson
import pytest

from catalog.iceberg.json import Json
from server.files.storage import Storage
from server.service.tables.metadata_files import MetadataFiles
from tests.factories import LAKE
from tests.server.lake import PLAIN, Lake


def a_document(snapshots: int, columns: int) -> Json:
    """Metadata as drains leave it, with a summary for each snapshot."""
    return {
        "schemas": [{"fields": [{"id": n, "name": f"column_{n}", "type": "long"} for n in range(columns)]}],
        "snapshots": [
            {
                "snapshot-id": 5_864_402_721_091_046_668 + n,
                "manifest-list": f"file:///warehouse/db/orders/change/metadata/snap-{n:036d}.avro",
                "summary": {"operation": "append", "added-records": str(n), "firn.position": f"orders:0:{n}"},
            }
            for n in range(snapshots)
        ],
    }


@pytest.mark.parametrize("document", [a_document(400, 10), a_document(0, 2_000)], ids=["snapshots", "columns"])
def test_the_cache_holds_no_more_memory_than_its_bound(tmp_path: Path, document: Json) -> None:
    text, bound = orjson.dumps(document), 4_000_000
    locations = [str(tmp_path / f"{number}.metadata.json") for number in range(2 * bound // len(text))]
    for location in locations:
        Path(location).write_bytes(text)
    metadata = MetadataFiles(Storage(), cache_bytes=bound)
    metadata.load(locations[0])
    tracemalloc.start()
    try:
        for location in locations:
            metadata.load(location)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert bound / 3 < held < bound
    assert bound / 2 < metadata.cached_bytes <= bound


def test_a_commit_replaces_the_version_before_it_in_memory(lake: Lake) -> None:
    lake.create()
    sizes = []
    for _ in range(12):
        lake.append(PLAIN)
        location = lake.services.tables.load(LAKE, PLAIN).metadata_location
        assert location is not None
        sizes.append((lake.services.metadata.cached_bytes, len(lake.services.metadata.load(location).text)))
    first, last = sizes[0], sizes[-1]
    assert last[0] - first[0] == 8 * (last[1] - first[1]), "only the newest version of the table is there"


def test_a_version_that_commits_have_replaced_can_still_be_read(lake: Lake) -> None:
    lake.create()
    before = lake.services.tables.load(LAKE, PLAIN).metadata_location
    assert before is not None
    text = lake.services.metadata.with_refs_only(before)
    lake.append(PLAIN)
    assert lake.services.metadata.load(before).parsed["snapshots"] == []
    assert lake.services.metadata.with_refs_only(before) == text
