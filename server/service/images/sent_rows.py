"""Reads and checks the rows of a commit to a keyed table under its own name.

See docs/protocols.md, rules 5.7, 5.8 and 5.10.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import uuid4

from catalog.commits.image_write import SentSnapshot, refuse_operation
from catalog.errors import Invalid, LocationRefused, RequirementFailed
from catalog.files.data_file import DataFileEntry
from catalog.iceberg.reading import current_schema
from catalog.keyed.spec import KeyScope
from catalog.locations.location_rule import FileRule, list_own_locations
from catalog.names import TableName
from catalog.ports.images import KeyChecker, SentFile, SentFiles, SentRows
from firn.protocol.locations import lies_in, normalize_location
from firn.protocol.tasks.image import DeletesTask, KeysTask
from server.service.images.pair import Pair, build_image_rule
from server.service.images.sent_upserts import (
    POSITIONS,
    UpsertReader,
    check_report,
    check_row_count,
    is_upserting,
)
from server.service.locations.location_rule import build_file_rule
from server.service.tables.keyed_tables import KeyedTables


@dataclass(frozen=True)
class SentRowReader:
    """Turns the files of a commit into files of changes."""

    tables: KeyedTables
    files: SentFiles
    checker: KeyChecker
    most_rows: int
    file_io: dict[str, str] = field(default_factory=dict)

    @property
    def upserts(self) -> UpsertReader:
        """Reads commits of streams that upsert."""
        return UpsertReader(self.files, self.checker, self.most_rows, self.file_io)

    def read_rows(self, pair: Pair, sent: SentSnapshot, files: Sequence[SentFile]) -> SentRows:
        """The new files, checked: where they lie, their columns, and their keys.

        For a commit of a stream that upserts these are all of its changes. The caller deletes `written` if it commits
        nothing.
        """
        _check_files(pair, files)
        _check_inserts_only(pair, sent, files)
        rule = self._build_rule(pair, is_of_image=False)
        if is_upserting(sent, files):
            return self.upserts.read(pair, files, rule)
        added = [file for file in files if not file.content and not file.is_removed]
        described = self.files.describe(pair.pin.base, added, rule)
        self._check_keys(pair, described, rule)
        return SentRows(upserts=described)

    def write_deletes(
        self, pair: Pair, sent: SentSnapshot, files: Sequence[SentFile]
    ) -> Sequence[DataFileEntry] | None:
        """Files with the keys of the rows that a statement deletes, except for keys that it inserts again.

        None for a commit that deletes nothing, or that of a stream that upserts: it depends on no image.
        RequirementFailed when the statement was planned on another state: its engine plans it again. Invalid when a
        row that it deletes has been changed or deleted meanwhile.
        """
        deletes = [file.location for file in files if file.content and not file.is_removed]
        removed = [file.location for file in files if not file.content and file.is_removed]
        if is_upserting(sent, files) or (not deletes and not removed):
            return None
        _check_inserts_only(pair, sent, files)
        name = pair.relation.name
        if sent.read_id != pair.key.snapshot_id:
            raise RequirementFailed(f"Requirement failed: {name} has changed since the statement read it")
        rule = self._build_rule(pair, is_of_image=True)
        task = self._make_deletes_task(pair, files, deletes=deletes, removed=removed)
        deleted = self.checker.find_deleted(task, rule.check)
        if deleted.stale is not None:
            raise Invalid(
                f"{name} has changed while the statement ran: {deleted.stale}",
                hint="run the statement again; DuckDB needs firn.read.format-version=2 for it",
            )
        if deleted.too_many is not None:
            raise Invalid(
                f"the statement on {name} changes or deletes {deleted.too_many:,} rows, more than the server reads",
                hint="run it in parts, delete keys with firn.spark.delete, or raise images.write_rows",
            )
        if deleted.files and pair.pin.keyed.spec.sequence_field is not None:
            self.files.discard([file.location for file in deleted.files])
            raise Invalid(
                f"{name} has a sequence field, whose value a statement does not give to the rows that it deletes",
                hint="UPDATE and MERGE may change rows that keep their keys; for deletes call firn.spark.delete",
            )
        image = self.tables.metadata.load(task.image_metadata).parsed
        return self.files.describe_deletes(image, pair.pin.change, deleted.files, rule)

    def _make_deletes_task(
        self, pair: Pair, files: Sequence[SentFile], *, deletes: list[str], removed: list[str]
    ) -> DeletesTask:
        return DeletesTask(
            image_metadata=pair.key.metadata_location(pair.relation.location.rstrip("/")),
            primary_key=list(pair.pin.keyed.spec.primary_key),
            deletes=deletes,
            replaced_deletes=[file.location for file in files if file.content and file.is_removed] if deletes else [],
            removed_files=removed,
            inserted=[file.location for file in files if not file.content and not file.is_removed],
            replacing=_list_replacing(pair),
            most_rows=self.most_rows,
            directory=f"{pair.pin.change['location'].rstrip('/')}/data",
            name=f"deletes-{uuid4()}",
            file_io=self.file_io,
        )

    def _build_rule(self, pair: Pair, *, is_of_image: bool) -> FileRule:
        database, links, pin = self.tables.database, self.tables.metadata.files, pair.pin
        with database.reading() as uow:
            if is_of_image:
                return build_image_rule(uow, database, links, pin)
            return build_file_rule(uow, database, links, pin.change_store, pin.change)

    def _check_keys(self, pair: Pair, files: Sequence[DataFileEntry], rule: FileRule) -> None:
        name, spec = pair.relation.name, pair.pin.keyed.spec
        if check_row_count(name, files, self.most_rows) == 0:
            return
        task = KeysTask(
            metadata=pair.pin.change_store.metadata_location or "",
            primary_key=list(spec.primary_key),
            sequence_field=spec.sequence_field,
            files=[file.stats.location for file in files],
            finds_repeated=spec.sequence_field is None,
            file_io=self.file_io,
        )
        check_report(name, self.checker.check_keys(task, rule.check))


def _list_replacing(pair: Pair) -> list[str]:
    """The columns by which an inserted row replaces another: the key, and under partition scope the partition, too."""
    key, base = pair.pin.keyed.spec.primary_key, pair.pin.base
    if pair.pin.keyed.spec.scope is KeyScope.GLOBAL:
        return list(key)
    spec = next(spec for spec in base["partition-specs"] if spec["spec-id"] == base["default-spec-id"])
    sources = {field["source-id"] for field in spec["fields"]}
    fields = current_schema(base)["fields"]
    return [field["name"] for field in fields if field["name"] in key or field["id"] in sources]


def check_operations(name: TableName, commits: Sequence[Sequence[SentFile]]) -> None:
    """Refuse statements that copy on write. `commits` are the files of each snapshot."""
    for files in commits:
        contents = {(file.content, file.is_removed) for file in files}
        if {(0, False), (0, True)} <= contents:
            raise refuse_operation(name, "overwrite")


def _check_inserts_only(pair: Pair, sent: SentSnapshot, files: Sequence[SentFile]) -> None:
    """Invalid for a commit to an insert-only table that deletes or replaces rows (docs/protocols.md, rule 1.9)."""
    if not pair.pin.keyed.spec.is_insert_only or all(not file.content and not file.is_removed for file in files):
        return
    name = pair.relation.name
    if is_upserting(sent, files):
        raise Invalid(
            f"{name} is insert-only, and the stream replaces or deletes rows",
            hint="write without write.upsert.enabled, from an append-only query: a row whose key is there does nothing",
        )
    raise Invalid(
        f"{name} is insert-only: statements on it cannot change or delete rows",
        hint=f"insert rows with new keys; to delete rows, run `firn table merge {name}`, and then DELETE on "
        f"{name}.base",
    )


def _check_files(pair: Pair, files: Sequence[SentFile]) -> None:
    """Refuse files that the change store cannot take over. Position deletes are only read, from wherever they may lie:
    DuckDB writes them beside the data file.
    """
    name, added = pair.relation.name, [file for file in files if not file.is_removed]
    own = [normalize_location(location) for location in list_own_locations(pair.pin.change)]
    for file in added:
        # A file of base would belong to both stores, and go with the one that lets it go first.
        is_own = any(lies_in(normalize_location(file.location), directory) for directory in own)
        if not is_own and file.content != POSITIONS:
            raise LocationRefused(
                f"{name}: {file.location} is not in the directory for new files",
                hint=f"write to {own[0]}/data, which the property write.data.path of the table names",
            )
    if any(file.content and file.format.upper() not in ("PARQUET", "PUFFIN") for file in added):
        raise Invalid(f"{name} takes delete files in Parquet", hint="set write.delete.format.default=parquet")
    if any(file.spec_id != pair.pin.base["default-spec-id"] for file in added if file.content != POSITIONS):
        raise RequirementFailed(f"Requirement failed: the partitions of {name} have changed", hint="refresh the table")
