"""Partitions in formats of their own: upgraded, registered and published as what they are."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from catalog.errors import Conflict
from firn.protocol.operations import OperationStatus
from server.files.manifests import Manifests
from server.files.storage import Storage
from tests.factories import LAKE
from tests.server.service.hive.altered_columns import added, alter_here
from tests.server.service.hive.beside_hive import BesideHive, HiveFiles, uri
from tests.server.service.hive.mixed_formats import write_avro, write_orc
from tests.server.service.hive.published_tables import merged, set_property


def registered(beside: BesideHive, table: HiveFiles) -> dict[str, tuple[str, int]]:
    """Format and rows of each file, by its name in the table's directory."""
    metadata = beside.metadata(table)
    assert metadata is not None
    manifests = Manifests(Storage(), metadata)
    files: list[Mapping[str, Any]] = [
        entry["data_file"]
        for manifest in manifests.of_snapshot(metadata["snapshots"][-1])
        for entry in manifests.entries(manifest)
    ]
    return {
        file["file_path"].removeprefix(uri(table.path)): (file["file_format"], file["record_count"]) for file in files
    }


def test_each_file_is_registered_as_what_it_is(beside: BesideHive, mixed: HiveFiles) -> None:
    beside.start(mixed)
    beside.upgrades.activate()
    files = registered(beside, mixed)
    assert sorted(files.values()) == [("AVRO", 2), ("ORC", 1), ("PARQUET", 1), ("PARQUET", 2)]
    metadata = beside.metadata(mixed)
    assert metadata is not None
    assert '"names":["id","ID"]' in metadata["properties"]["schema.name-mapping.default"]
    write_orc(mixed, "g", 7, 8)
    write_avro(mixed, "g", 9)
    assert beside.sync(mixed).message == "partitions new files: 2"
    assert registered(beside, mixed) == files | {"/p=orc/g": ("ORC", 2), "/p=avro/g": ("AVRO", 1)}


@pytest.mark.parametrize(("write", "part"), [(write_orc, "orc"), (write_avro, "avro")])
def test_nulls_in_keys_are_found_in_every_format(beside: BesideHive, mixed: HiveFiles, write: Any, part: str) -> None:
    operation = beside.start(mixed, "id")
    write(mixed, "g", 7, None, None)
    beside.upgrades.activate()
    ended = beside.operation(operation)
    assert (ended.status, ended.error) == (
        OperationStatus.FAILED, "primary key column 'id' holds nulls (2 found)",
    )  # fmt: skip
    (mixed.path / f"p={part}" / "g").unlink()
    beside.start(mixed, "id")
    beside.upgrades.activate()
    assert len(registered(beside, mixed)) == 4


@pytest.mark.parametrize(("write", "part"), [(write_orc, "orc"), (write_avro, "avro")])
def test_trusted_files_go_into_base_as_what_they_are_if_they_have_keys(
    beside: BesideHive, mixed: HiveFiles, write: Any, part: str
) -> None:
    beside.start(mixed, "id")
    beside.upgrades.activate()
    set_property(beside, mixed, "firn.hive.keyed-sync", "append-without-check")
    write(mixed, "g", 7, 8)
    assert beside.sync(mixed).message == "partitions new files: 1"
    assert registered(beside, mixed)[f"/p={part}/g"] == (part.upper(), 2)
    write(mixed, "h", None)
    assert "holds nulls in 'id'" in beside.sync(mixed).message


def test_a_file_in_another_format_than_its_partition_s_is_named(beside: BesideHive, mixed: HiveFiles) -> None:
    operation = beside.start(mixed)
    (mixed.path / "p=orc" / "f").rename(mixed.path / "p=x" / "strange")
    beside.upgrades.activate()
    ended = beside.operation(operation)
    assert ended.error is not None
    assert "/p=x/strange is not a readable Parquet file" in ended.error
    assert beside.metadata(mixed) is None


def test_a_publish_keeps_each_partition_s_format_and_leaves_out_what_avro_cannot_hold(
    beside: BesideHive, mixed: HiveFiles
) -> None:
    beside.start(mixed, "id")
    beside.upgrades.activate()
    for part, ids in (("x", (1,)), ("orc", (4,)), ("avro", (5, 6))):
        merged(beside, mixed, part, *ids)
    assert formats_asked_for(beside, mixed) == {"p=x": "PARQUET", "p=orc": "ORC", "p=avro": "AVRO"}
    alter_here(beside, mixed, added("at", "timestamp"))
    assert formats_asked_for(beside, mixed, "column at (a timestamp)") == {"p=x": "PARQUET", "p=orc": "ORC"}


def formats_asked_for(beside: BesideHive, table: HiveFiles, lacks: str | None = None) -> dict[str, str]:
    outcome = beside.publish_requests.publish(LAKE, table.name)
    assert outcome.job is not None, outcome.message
    if lacks is not None:
        words = f"; 1 partition waits, because Hive has Avro there, which cannot hold {lacks}"
        assert words in outcome.message
    with beside.database.reading() as uow:
        staged = uow.baselines.staged(outcome.job.id)
    beside.services.jobs.cancel(outcome.job.id)
    assert staged is not None
    return {partition["name"]: partition["format"] for partition in staged.task["partitions"]}


def test_a_downgrade_that_would_never_end_is_refused(beside: BesideHive, mixed: HiveFiles) -> None:
    beside.start(mixed, "id")
    beside.upgrades.activate()
    merged(beside, mixed, "avro", 5, 6)
    alter_here(beside, mixed, added("which", "uuid"))
    beside.metastore.answers = False
    begun = beside.downgrades.start(LAKE, mixed.name)  # nobody can tell yet
    beside.metastore.answers = True
    beside.downgrades.activate()
    ended = beside.operation(begun)
    words = "partition p=avro cannot be published, because Hive has Avro there, which cannot hold column which (a uuid)"
    assert ended.status is OperationStatus.FAILED
    assert words in (ended.error or "")
    assert beside.metadata(mixed) is not None, "it goes on here as before"
    assert words in (beside.downgrades.preview(LAKE, mixed.name).blocked or "")
    with pytest.raises(Conflict, match=re.escape(words)):
        beside.downgrades.start(LAKE, mixed.name)
