"""A keyed table over Hive's files without a server: base registered, changes as engines write them, images of both."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable

from catalog.files.data_file import DataFileEntry
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema, current_snapshot_id
from catalog.iceberg.table import apply_updates
from catalog.keyed.image import ImageKey, choose_format_version
from catalog.ports.images import ImageParts
from firn.protocol.tasks.image import Layer, LayerTask
from optimizer.images.pair import build_from_task
from server.files.footers import Footers
from server.files.images import write_image
from server.files.snapshots import write_snapshot
from server.files.storage import Storage
from server.service.tables.keyed_metadata import build_change_metadata
from tests.server.files.registered import Registered

Row = Mapping[str, Any]


class KeyedStores:
    """One keyed table, partitioned by `day`; base's files are Hive's, without field ids and without `day`."""

    def __init__(self, root: Path, *, version: int = 2, key: Sequence[str] = ("id",)) -> None:
        self.root = root
        self.base = Registered(root / "base", "id bigint; qty int; name string", "day string", version=version)
        self.key = list(key)
        self.uuid = UUID(int=7)
        self.storage = Storage()
        location = (root / "change").as_posix()
        self.change: Json = build_change_metadata(self.base.metadata, location=location, now_ms=1_700_000_000_000)
        self.commits = 0
        self.watermark = 0
        self.build: Callable[[LayerTask], Layer] = lambda task: build_from_task(task, lambda _: None)

    def write_base(self, day: str, rows: Sequence[Row], *, name: str = "000000_0") -> None:
        columns = {field: [row[field] for row in rows] for field in ("id", "qty", "name")}
        types = pa.schema([("id", pa.int64()), ("qty", pa.int32()), ("name", pa.string())])
        self.base.commit([self.base.hive_file([day], pa.table(columns, schema=types), name=name)])

    def write_changes(self, changes: Sequence[Row]) -> None:
        """One commit on the change store: one file for each partition."""
        self.commits += 1
        days = dict.fromkeys(change["day"] for change in changes)
        files = [self._change_file(day, [change for change in changes if change["day"] == day]) for day in days]
        snapshot_update = write_snapshot(
            self.storage,
            self.change,
            files,
            (),
            snapshot_id=2000 + self.commits,
            now_ms=1_700_000_000_000 + self.commits,
        )
        self.change = apply_updates(
            self.change, snapshot_update.updates(), now_ms=1_700_000_002_000, previous_location=None
        )

    def write_image(self, below: tuple[str, Json] | None = None, *, since: int = 0) -> tuple[str, Json]:
        """Build the image of both heads: the location of its metadata, and the metadata.

        With `below`, an image of the same base, a layer is added to it: the changes above sequence number `since`.
        """
        location, metadata = (self._write_base(), self.base.metadata) if below is None else below
        key = self.image_key()
        task = self.layer_task(key, location, since=since)
        layer = self.build(task)
        return write_image(
            self.storage,
            ImageParts(
                key=key,
                base=metadata,
                change=self.change,
                base_version=self.base.metadata["format-version"],
                sequence_number=self.base.metadata["last-sequence-number"] + 1,
                layer=layer,
                directory=task.directory,
                name=task.name,
                table_location=str(self.root),
            ),
        )

    def image_key(self) -> ImageKey:
        """The key of the image of both heads."""
        return ImageKey(
            table_uuid=self.uuid,
            base_snapshot_id=current_snapshot_id(self.base.metadata),
            change_snapshot_id=current_snapshot_id(self.change) or 0,
            watermark=self.watermark,
            schema_id=self.base.metadata["current-schema-id"],
            format_version=choose_format_version(
                self.base.metadata, self.base.metadata["properties"].get("firn.read.format-version", "2")
            ),
            base_metadata=self.base.metadata_file,
        )

    def layer_task(self, key: ImageKey, base: str | None = None, *, since: int = 0) -> LayerTask:
        """What the builder is asked for."""
        return LayerTask(
            base_metadata=self._write_base() if base is None else base,
            change_metadata=self._write_change(),
            primary_key=self.key,
            watermark=self.watermark,
            since=since,
            directory=f"{self.root}/merged",
            name=key.name_build(uuid4().hex[:8]),
            format_version=key.format_version,
        )

    def set_property(self, name: str, value: str) -> None:
        update = {"action": "set-properties", "updates": {name: value}}
        self.base.metadata = apply_updates(self.base.metadata, [update], now_ms=1, previous_location=None)

    def _change_file(self, day: str, changes: Sequence[Row]) -> DataFileEntry:
        schema = current_schema(self.change)
        arrow = schema_to_pyarrow(Schema.model_validate(schema), include_field_ids=True)
        rows = [{**change, "_op": change.get("_op", "U")} for change in changes]
        path = self.root / "change" / "data" / f"{uuid4()}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.Table.from_pylist(rows, schema=arrow), path, store_schema=False)
        return DataFileEntry(stats=Footers(self.storage, schema).read(str(path)), partition=(day,))

    def _write_base(self) -> str:
        Path(self.base.metadata_file).write_text(json.dumps(self.base.metadata))
        return self.base.metadata_file

    def _write_change(self) -> str:
        path = self.root / "change" / "metadata" / f"v{self.commits}.metadata.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.change))
        return str(path)


def read_rows(location: str, **scan: Any) -> list[dict[str, Any]]:
    """What PyIceberg reads of the table with this metadata."""
    rows: list[dict[str, Any]] = StaticTable.from_metadata(location).scan(**scan).to_arrow().to_pylist()
    return sorted(rows, key=lambda row: repr(sorted(row.items())))
