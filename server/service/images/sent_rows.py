"""Reads and checks the rows of a commit to a keyed table under its own name (docs/protocols.md, rules 5.7 and 5.8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import uuid4

from catalog.commits.image_write import SentSnapshot, refuse_operation
from catalog.errors import Invalid, LocationRefused, RequirementFailed
from catalog.files.data_file import DataFileEntry
from catalog.locations.location_rule import FileRule, list_own_locations
from catalog.names import TableName
from catalog.ports.images import KeyChecker, SentFile, SentFiles
from firn.protocol.locations import lies_in, normalize_location
from firn.protocol.tasks.image import DeletesTask, KeyReport, KeysTask
from server.service.images.pair import Pair, build_image_rule
from server.service.locations.location_rule import build_file_rule
from server.service.tables.keyed_tables import KeyedTables

_POSITIONS = 1


@dataclass(frozen=True)
class SentRowReader:
    """Turns the files of a commit into files of changes."""

    tables: KeyedTables
    files: SentFiles
    checker: KeyChecker
    most_rows: int
    file_io: dict[str, str] = field(default_factory=dict)

    def read_upserts(self, pair: Pair, files: Sequence[SentFile]) -> Sequence[DataFileEntry]:
        """The new data files, checked: where they lie, their columns, and their keys."""
        _check_files(pair, files)
        rule = self._build_rule(pair, is_of_image=False)
        added = [file for file in files if not file.content and not file.is_removed]
        described = self.files.describe(pair.pin.base, added, rule)
        self._check_keys(pair, described, rule)
        return described

    def write_deletes(self, pair: Pair, sent: SentSnapshot, files: Sequence[SentFile]) -> Sequence[DataFileEntry]:
        """Files with the keys of the rows that a statement deletes; none for a commit that deletes none.

        RequirementFailed when the statement was planned on another state: its engine plans it again. Invalid when a
        row that it deletes has been changed or deleted meanwhile.
        """
        deletes = [file.location for file in files if file.content and not file.is_removed]
        removed = [file.location for file in files if not file.content and file.is_removed]
        if not deletes and not removed:
            return ()
        self._check_statement(pair, sent)
        rule = self._build_rule(pair, is_of_image=True)
        task = DeletesTask(
            image_metadata=pair.key.metadata_location(pair.relation.location.rstrip("/")),
            primary_key=list(pair.pin.keyed.spec.primary_key),
            deletes=deletes,
            replaced_deletes=[file.location for file in files if file.content and file.is_removed] if deletes else [],
            removed_files=removed,
            directory=f"{pair.pin.change['location'].rstrip('/')}/data",
            name=f"deletes-{uuid4()}",
            file_io=self.file_io,
        )
        deleted = self.checker.find_deleted(task, rule.check)
        if deleted.stale is not None:
            raise Invalid(
                f"{pair.relation.name} has changed while the statement ran: {deleted.stale}",
                hint="run the statement again",
            )
        image = self.tables.metadata.load(task.image_metadata).parsed
        return self.files.describe_deletes(image, pair.pin.change, deleted.files, rule)

    def _check_statement(self, pair: Pair, sent: SentSnapshot) -> None:
        name = pair.relation.name
        if pair.pin.keyed.spec.sequence_field is not None:
            raise Invalid(
                f"{name} has a sequence field, whose value a statement does not give to the rows that it deletes",
                hint="call firn.spark.upsert or firn.spark.delete",
            )
        if sent.parent_id != pair.key.snapshot_id:
            raise RequirementFailed(f"Requirement failed: {name} has changed since the statement read it")

    def _build_rule(self, pair: Pair, *, is_of_image: bool) -> FileRule:
        database, links, pin = self.tables.database, self.tables.metadata.files, pair.pin
        with database.reading() as uow:
            if is_of_image:
                return build_image_rule(uow, database, links, pin)
            return build_file_rule(uow, database, links, pin.change_store, pin.change)

    def _check_keys(self, pair: Pair, files: Sequence[DataFileEntry], rule: FileRule) -> None:
        name, spec = pair.relation.name, pair.pin.keyed.spec
        rows = sum(file.stats.record_count for file in files)
        if rows > self.most_rows:
            raise Invalid(
                f"{rows:,} rows in one commit to {name} are more than the server checks for repeated keys",
                hint="write them with firn.spark.upsert, or in parts, or raise images.write_rows",
            )
        if rows == 0:
            return
        task = KeysTask(
            metadata=pair.pin.change_store.metadata_location or "",
            primary_key=list(spec.primary_key),
            sequence_field=spec.sequence_field,
            files=[file.stats.location for file in files],
            finds_repeated=spec.sequence_field is None,
            file_io=self.file_io,
        )
        _check_report(name, self.checker.check_keys(task, rule.check))


def _check_files(pair: Pair, files: Sequence[SentFile]) -> None:
    """Refuse commits that are no inserts and no statements that merge on read."""
    name, added = pair.relation.name, [file for file in files if not file.is_removed]
    if any(file.content > _POSITIONS for file in added):
        raise refuse_operation(name, "equality deletes")
    removes_data = any(file.is_removed and not file.content for file in files)
    if removes_data and any(not file.content for file in added):
        raise refuse_operation(name, "overwrite")  # also a statement that copies on write
    own = [normalize_location(location) for location in list_own_locations(pair.pin.change)]
    for file in added:
        # A file of base would belong to both stores, and go with the one that lets it go first.
        if not any(lies_in(normalize_location(file.location), directory) for directory in own):
            raise LocationRefused(
                f"{name}: {file.location} is not in the directory for new files",
                hint=f"write to {own[0]}/data, which the property write.data.path of the table names",
            )
    if any(file.content and file.format.upper() not in ("PARQUET", "PUFFIN") for file in added):
        raise Invalid(f"{name} takes delete files in Parquet", hint="set write.delete.format.default=parquet")
    if any(file.spec_id != pair.pin.base["default-spec-id"] for file in added if not file.content):
        raise RequirementFailed(f"Requirement failed: the partitions of {name} have changed", hint="refresh the table")


def _check_report(name: TableName, report: KeyReport) -> None:
    if report.nulls:
        described = ", ".join(f"{column} in {count} rows" for column, count in report.nulls.items())
        raise Invalid(f"{name}: key columns and the sequence field must not be null; null are {described}")
    if report.repeated:
        shown = "; ".join(report.samples)
        raise Invalid(
            f"{name}: {report.repeated} keys appear more than once in the rows, such as {shown}",
            hint="keep one row of each key, or give the table a sequence field that orders them",
        )
