"""Rows of one target of a run in files that no snapshot names, until the run commits all of its targets together."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 -- PySpark's own convention

from firn.protocol.pipelines import TableChanges
from optimizer.pipelines.plain_files import LINEAGE, raise_conflict
from optimizer.staged_files import StagedFiles

_NAME = "firn.staged"
"""Java wants a name for the table of a request; the server takes the one that stands beside it."""


@dataclass(frozen=True)
class StagedRows:
    """Files for a table. `begin` begins the change of a transaction that adds them; `written` counts their rows."""

    files: StagedFiles
    begin: Callable[[Any], Any]
    written: int | None = None

    def build_changes(self, table: str, summary: Mapping[str, str]) -> TableChanges:
        """The snapshot with these files on the table as it is now. Nothing is sent; its manifests are written.

        Raises TargetChanged if somebody has changed rows that the files replace.
        """
        java = self.files.table
        java.refresh()
        transaction = java.newTransaction()
        change = self.begin(transaction)
        for key, text in summary.items():
            change.set(key, text)
        try:
            change.commit()  # which ends in the transaction
        except Exception as error:  # Java throws many types of errors
            raise_conflict(error)
            raise
        return self._read_changes(table, transaction)

    def _read_changes(self, table: str, transaction: Any) -> TableChanges:
        iceberg = self.files.iceberg
        identifier = iceberg.catalog.TableIdentifier.parse(_NAME)
        staged = iceberg.catalog.TableCommit.create(
            identifier, transaction.startMetadata(), transaction.currentMetadata()
        )
        requests = iceberg.rest.requests
        request = requests.UpdateTableRequest.create(identifier, staged.requirements(), staged.updates())
        body = json.loads(requests.UpdateTableRequestParser.toJson(request))
        return TableChanges(table=table, requirements=body["requirements"], updates=body["updates"])


def append_files(files: StagedFiles) -> Callable[[Any], Any]:
    """Adds the files to the table."""

    def begin(transaction: Any) -> Any:
        change = transaction.newAppend()
        for file in files.list_new():
            change.appendFile(file)
        return change

    return begin


def overwrite_table(files: StagedFiles, since: int | None) -> Callable[[Any], Any]:
    """Replaces all rows of the table; if `since` is a snapshot, only if nobody has changed the table after it."""

    def begin(transaction: Any) -> Any:
        change = transaction.newOverwrite()
        change.overwriteByRowFilter(files.iceberg.expressions.Expressions.alwaysTrue())
        for file in files.list_new():
            change.addFile(file)
        if since is not None:
            change.validateFromSnapshot(since)
            change.validateNoConflictingData()
            change.validateNoConflictingDeletes()
        return change

    return begin


def write_new(files: StagedFiles, rows: DataFrame, options: Mapping[str, str] | None = None) -> None:
    """Write new rows that have the table's columns."""
    if files.iceberg.TableUtil.supportsRowLineage(files.table):
        rows = rows.withColumns({column: F.lit(None).cast("bigint") for column in LINEAGE})
    files.write(rows, options)
