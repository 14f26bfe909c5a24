"""The filter of Hive tables, as queries and requests write it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Annotated

from fastapi import Query
from pydantic import Field

from catalog.hive.table_index import HiveTableFilter, HiveTableState
from firn.protocol.base import Request as In

_HUGE = 2**63 - 1
Text = Annotated[str | None, Query(max_length=512)]
Number = Annotated[int | None, Query(ge=0, le=_HUGE)]
InText = Annotated[str | None, Field(max_length=512)]
InNumber = Annotated[int | None, Field(ge=0, le=_HUGE)]


@dataclass(frozen=True, kw_only=True)
class HiveFilter:
    """The filter of a list of Hive tables. Bounds include their value, except `written_before`."""

    database: Text = None
    search: Text = None
    state: Annotated[HiveTableState | None, Query()] = None
    out_of_sync: Annotated[bool | None, Query()] = None
    format: Text = None
    blocker: Text = None
    writer: Text = None
    partitioned: Annotated[bool | None, Query()] = None
    checked: Annotated[bool | None, Query()] = None
    failed: Annotated[bool | None, Query()] = None
    min_bytes: Number = None
    max_bytes: Number = None
    min_rows: Number = None
    max_rows: Number = None
    min_partitions: Number = None
    max_partitions: Number = None
    written_since: Annotated[datetime | None, Query()] = None
    written_before: Annotated[datetime | None, Query()] = None

    def build(self) -> HiveTableFilter:
        """Build the filter."""
        return build_filter(self)


class HiveFilterIn(In):
    """The filter that selects the tables of a wave, as for the list of Hive tables."""

    database: InText = None
    search: InText = None
    state: HiveTableState | None = None
    out_of_sync: bool | None = None
    format: InText = None
    blocker: InText = None
    writer: InText = None
    partitioned: bool | None = None
    checked: bool | None = None
    failed: bool | None = None
    min_bytes: InNumber = None
    max_bytes: InNumber = None
    min_rows: InNumber = None
    max_rows: InNumber = None
    min_partitions: InNumber = None
    max_partitions: InNumber = None
    written_since: datetime | None = None
    written_before: datetime | None = None


def build_filter(request: HiveFilter | HiveFilterIn) -> HiveTableFilter:
    """Build the filter; a time without a zone is in UTC, and a NUL, which no database stores, matches nothing."""
    values = {field.name: getattr(request, field.name) for field in fields(HiveTableFilter)}
    for name, value in values.items():
        if isinstance(value, datetime) and value.tzinfo is None:
            values[name] = value.replace(tzinfo=UTC)
        if type(value) is str:
            values[name] = value.replace("\0", "\ufffd")
    if values["database"] is not None:
        values["database"] = values["database"].lower()
    return HiveTableFilter(**values)
