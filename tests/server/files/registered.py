"""Parquet files in Hive's directories, registered by Firn in a table that a hadoop catalog can open."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from catalog.files.data_file import AddSnapshot, DataFileEntry
from catalog.hive.mapping import PROPERTY, build_name_mapping
from catalog.hive.partition_names import format_partition_name, to_partition_record
from catalog.hive.types import iceberg_fields
from catalog.iceberg.json import Json
from catalog.iceberg.table import apply_updates, build_table, check_requirements
from server.files.footers import Footers
from server.files.snapshots import write_snapshot
from server.files.storage import Storage
from tests.hive_tables import columns


@dataclass
class Registered:
    """An Iceberg table over Hive files."""

    warehouse: Path
    cols: str
    partitioned_by: str
    version: int = 2
    metadata: Json = field(default_factory=dict)
    storage: Storage = field(default_factory=Storage)
    commits: int = 0

    def __post_init__(self) -> None:
        ids = iter(range(1, 1000))
        keys = columns(self.partitioned_by)
        fields = iceberg_fields([*columns(self.cols), *keys], ids.__next__)
        by_name = {field["name"]: field["id"] for field in fields}
        spec = [{"name": key.name, "source-id": by_name[key.name], "transform": "identity"} for key in keys]
        self.metadata = build_table(
            uuid=str(uuid4()),
            location=f"{self.warehouse}/db/t",
            schema={"type": "struct", "fields": fields},
            partition_spec={"spec-id": 0, "fields": spec},
            sort_order=None,
            properties={"format-version": str(self.version)},
            now_ms=1_700_000_000_000,
        )
        self.map_names([])

    @property
    def schema(self) -> Json:
        schema: Json = self.metadata["schemas"][0]
        return schema

    def map_names(self, aliases: Sequence[tuple[int, str]]) -> None:
        update = {"action": "set-properties", "updates": {PROPERTY: build_name_mapping(self.schema, aliases)}}
        self.metadata = apply_updates(self.metadata, [update], now_ms=1_700_000_000_001, previous_location=None)

    def hive_file(
        self, values: Sequence[str], rows: pa.Table, name: str = "000000_0", **options: object
    ) -> DataFileEntry:
        """Write a file into its partition's directory, as Hive would, and read its footer."""
        keys = columns(self.partitioned_by)
        directory = self.warehouse.parent / "hive" / format_partition_name(keys, values)
        directory.mkdir(parents=True, exist_ok=True)
        pq.write_table(rows, directory / name, **options)
        stats = Footers(self.storage, self.schema).read(f"file:{directory}/{name}")
        return DataFileEntry(stats=stats, partition=to_partition_record(keys, values))

    def commit(self, added: Sequence[DataFileEntry] = (), removed: Sequence[str] = (), **extra: str) -> AddSnapshot:
        """One snapshot, and the metadata file that a hadoop catalog expects."""
        self.commits += 1
        snapshot_update = write_snapshot(
            self.storage, self.metadata, added, removed,
            snapshot_id=1000 + self.commits, now_ms=1_700_000_000_000 + self.commits, summary_extra=extra,
        )  # fmt: skip
        check_requirements(self.metadata, snapshot_update.requirements())
        self.metadata = apply_updates(
            self.metadata, snapshot_update.updates(), now_ms=1_700_000_001_000 + self.commits, previous_location=None
        )
        place = self.warehouse / "db" / "t" / "metadata"
        (place / f"v{self.commits}.metadata.json").write_text(json.dumps(self.metadata))
        (place / "version-hint.text").write_text(str(self.commits))
        return snapshot_update

    @property
    def metadata_file(self) -> str:
        return f"{self.warehouse}/db/t/metadata/v{self.commits}.metadata.json"


def rows_of(table: pa.Table) -> list[Mapping[str, Any]]:
    """Rows in an order of their own, so that two readers can be compared."""
    return sorted(table.to_pylist(), key=lambda row: json.dumps(row, default=str, sort_keys=True))
