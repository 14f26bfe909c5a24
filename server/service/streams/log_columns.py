"""Columns that drains add to the tables of logs, because records have values for them (docs/streams.md#new-columns)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from catalog.errors import Invalid, NotFound, RequirementFailed
from catalog.history.commit import TableCommit
from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_schema
from catalog.keyed.spec import BASE
from catalog.names import CatalogName, TableName
from catalog.policy.log_settings import SCHEMA, LogSettings
from firn.protocol.cdc.rows import ADD
from firn.protocol.log_columns import MOST_COLUMNS, explain_name
from server.service.commit.commit_path import CommitRequest, Committer
from server.service.tables.keyed_tables import KeyedTables, Pin

_ATTEMPTS = 10
"""How often an addition begins anew because somebody altered the columns meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AddedColumns:
    """The columns of a drain that the table has now, and why it gets no others."""

    added: tuple[str, ...]
    refused: Mapping[str, str]


@dataclass(frozen=True)
class LogColumns:
    """Adds optional columns to both stores of a keyed table."""

    keyed: KeyedTables
    committer: Committer

    def add(self, catalog: CatalogName, table: TableName, types: Mapping[str, str]) -> AddedColumns:
        """Add the columns that the table lacks, and no others. `types` are Iceberg's.

        The commit requires the columns that it was made from, so two drains add a column once. Raises Invalid unless
        `firn.log.schema` is `add`, NotFound for a table without a log, and what a commit raises.
        """
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return self._try_add(catalog, table, types)
            except RequirementFailed:
                if attempt == _ATTEMPTS:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _try_add(self, catalog: CatalogName, table: TableName, types: Mapping[str, str]) -> AddedColumns:
        pin = self.keyed.pin(catalog, table)
        _require_add(pin)
        schema = current_schema(pin.base)
        names = [field["name"] for field in schema["fields"]]
        present = [name for name in types if name in names]  # another drain has added it
        refused, fields = dict[str, str](), list[Json]()
        for name, type_ in types.items():
            if name in present:
                continue
            reason = explain_name(name, [*names, *(field["name"] for field in fields)])
            if reason is None and len(names) + len(fields) >= MOST_COLUMNS:
                reason = f"the table has {MOST_COLUMNS:,} columns: add more yourself if you need them"
            if reason is not None:
                refused[name] = reason
                continue
            field_id = pin.base["last-column-id"] + 1 + len(fields)
            fields.append({"id": field_id, "name": name, "required": False, "type": type_})
        if fields:
            self._commit(catalog, table, pin, {**schema, "fields": [*schema["fields"], *fields]})
        return AddedColumns(added=(*present, *(field["name"] for field in fields)), refused=refused)

    def _commit(self, catalog: CatalogName, table: TableName, pin: Pin, schema: Json) -> None:
        """Commit to base, whose commit path gives the change store the same columns."""
        store = TableName(table.as_namespace, BASE)
        commit = TableCommit(
            name=store,
            requirements=[
                {"type": "assert-table-uuid", "uuid": pin.base["table-uuid"]},
                {"type": "assert-current-schema-id", "current-schema-id": pin.base["current-schema-id"]},
                {"type": "assert-last-assigned-field-id", "last-assigned-field-id": pin.base["last-column-id"]},
            ],
            updates=[
                {"action": "add-schema", "schema": {key: schema[key] for key in schema if key != "schema-id"}},
                {"action": "set-current-schema", "schema-id": -1},
            ],
        )
        self.committer.commit(CommitRequest(catalog=catalog, changes=[commit]))


def _require_add(pin: Pin) -> None:
    settings = LogSettings.from_properties(pin.base.get("properties", {}))
    if settings is None:
        raise NotFound(f"{pin.relation.name} has no log")
    if settings.schema != ADD:
        raise Invalid(
            f"{pin.relation.name} gets no columns by itself: {SCHEMA} is {settings.schema}",
            hint=f"set {SCHEMA} to {ADD}, or add the column yourself",
        )
