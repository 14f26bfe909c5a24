"""Turns a commit of a stream that upserts into changes (docs/protocols.md, rule 5.10)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from catalog.commits.image_write import SentSnapshot
from catalog.errors import Invalid
from catalog.files.data_file import DataFileEntry
from catalog.iceberg.reading import current_schema
from catalog.keyed.streams import read_checkpoint
from catalog.locations.location_rule import FileRule
from catalog.names import TableName
from catalog.ports.images import KeyChecker, SentFile, SentFiles, SentRows
from firn.protocol.tasks.image import KeyReport, Pack, UpsertedRows, UpsertsTask
from server.service.images.pair import Pair

POSITIONS, EQUALITY = 1, 2
"""The content of delete files."""


def is_upserting(sent: SentSnapshot, files: Sequence[SentFile]) -> bool:
    """Whether a commit has equality deletes, so that its deletes name keys and no rows that it has read.

    A stream that deletes only rows of the same checkpoint needs no equality deletes.
    """
    contents = {file.content for file in files if not file.is_removed}
    return EQUALITY in contents or (POSITIONS in contents and read_checkpoint(sent.summary) is not None)


@dataclass(frozen=True)
class UpsertReader:
    """Checks the files of a commit with equality deletes, and has the missing changes written."""

    files: SentFiles
    checker: KeyChecker
    most_rows: int
    file_io: dict[str, str]

    def read(self, pair: Pair, files: Sequence[SentFile], rule: FileRule) -> SentRows:
        """The commit's changes. Invalid for rows, keys or deletes that a keyed table does not take."""
        added = [file for file in files if not file.is_removed]
        if any(file.is_removed and not file.content for file in files):
            raise Invalid(f"{pair.relation.name}: a commit of a stream cannot remove data files")
        data, equality = ([file for file in added if file.content == content] for content in (0, EQUALITY))
        _check_equality_deletes(pair, equality)
        described = self.files.describe(pair.pin.base, data, rule)
        keys = self.files.describe_changes(pair.pin.change, equality, rule)
        check_row_count(pair.relation.name, [*described, *keys], self.most_rows)
        task = self._make_task(pair, added)
        rows = self.checker.read_upserts(task, rule.check)
        check_report(pair.relation.name, rows.report)
        if rows.foreign is not None:
            raise Invalid(
                f"{pair.relation.name}: a commit of a stream deletes rows of {rows.foreign}, which it has not written",
                hint="commit twice: a statement, and the stream's files",
            )
        written = [pack.location for pack in (*rows.rewritten, *rows.deletes)]
        try:
            return self._describe(pair, added, described, rows, rule)
        except BaseException:
            self.files.discard(written)
            raise

    def _make_task(self, pair: Pair, added: Sequence[SentFile]) -> UpsertsTask:
        groups: dict[object, list[str]] = defaultdict(list)
        for file in added:
            if file.content == EQUALITY:
                groups[file.partition].append(file.location)
        spec = pair.pin.keyed.spec
        return UpsertsTask(
            metadata=pair.pin.change_store.metadata_location or "",
            primary_key=list(spec.primary_key),
            sequence_field=spec.sequence_field,
            files=[file.location for file in added if not file.content],
            equality_deletes=list(groups.values()),
            position_deletes=[file.location for file in added if file.content == POSITIONS],
            directory=f"{pair.pin.change['location'].rstrip('/')}/data",
            name=f"upserts-{uuid4()}",
            file_io=self.file_io,
        )

    def _describe(
        self,
        pair: Pair,
        added: Sequence[SentFile],
        described: Sequence[DataFileEntry],
        rows: UpsertedRows,
        rule: FileRule,
    ) -> SentRows:
        if rows.deletes and pair.pin.keyed.spec.sequence_field is not None:
            raise Invalid(
                f"{pair.relation.name} has a sequence field, whose value an equality delete does not give",
                hint="have the stream upsert rows only, or send deletes with firn.spark.delete",
            )
        by_location = {file.location: file for file in added}

        def like(packs: Sequence[Pack]) -> list[SentFile]:
            return [replace(by_location[pack.like], location=pack.location, format="PARQUET") for pack in packs]

        gone = {*rows.hidden, *(pack.like for pack in rows.rewritten)}
        kept = [entry for entry in described if entry.stats.location not in gone]
        return SentRows(
            upserts=[*kept, *self.files.describe(pair.pin.base, like(rows.rewritten), rule)],
            deletes=self.files.describe_changes(pair.pin.change, like(rows.deletes), rule, comes_first=True),
            written=[pack.location for pack in (*rows.rewritten, *rows.deletes)],
        )


def _check_equality_deletes(pair: Pair, files: Sequence[SentFile]) -> None:
    """Refuse equality deletes on other columns than the key, and on tables that are partitioned outside their key."""
    name, key = pair.relation.name, pair.pin.keyed.spec.primary_key
    fields = {field["id"]: field["name"] for field in current_schema(pair.pin.base)["fields"]}
    for file in files:
        columns = {fields.get(field_id, str(field_id)) for field_id in file.equality_ids}
        if columns != {*key}:
            raise Invalid(
                f"{name}: equality deletes on {', '.join(sorted(columns))}, but the key is {', '.join(key)}",
                hint="write with the table's own key: PRIMARY KEY or equality-field-columns in Flink",
            )
    if not files:
        return
    spec = next(s for s in pair.pin.base["partition-specs"] if s["spec-id"] == pair.pin.base["default-spec-id"])
    outside = [field["name"] for field in spec["fields"] if fields.get(field["source-id"]) not in key]
    if outside:
        raise Invalid(
            f"{name} is partitioned by {', '.join(outside)}, outside of its key: an equality delete in one partition "
            "does not say whether it means the key's row in another",
            hint="append the rows without write.upsert.enabled, which upserts too, or partition the table by its key",
        )


def check_row_count(name: TableName, files: Sequence[DataFileEntry], most_rows: int) -> int:
    """The number of rows; Invalid if they are more than the server reads."""
    rows = sum(file.stats.record_count for file in files)
    if rows > most_rows:
        raise Invalid(
            f"{rows:,} rows in one commit to {name} are more than the server checks for repeated keys",
            hint="write them with firn.spark.upsert, or in parts, or raise images.write_rows",
        )
    return rows


def check_report(name: TableName, report: KeyReport) -> None:
    """Invalid for null keys and for keys of several rows."""
    if report.nulls:
        described = ", ".join(f"{column} in {count} rows" for column, count in report.nulls.items())
        raise Invalid(f"{name}: key columns and the sequence field must not be null; null are {described}")
    if report.repeated:
        shown = "; ".join(report.samples)
        raise Invalid(
            f"{name}: {report.repeated} keys appear more than once in the rows, such as {shown}",
            hint="keep one row of each key, or give the table a sequence field that orders them",
        )
