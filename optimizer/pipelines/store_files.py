"""The stores of a run's table as PyArrow reads and writes them, in this process and without Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import httpx
import pyarrow as pa
from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    ForbiddenError,
    NoSuchTableError,
    UnauthorizedError,
    ValidationError,
)
from pyiceberg.manifest import DataFile

from firn.drains.append import Append
from firn.drains.files import write_files
from firn.drains.layout import ChangeLayout, find_table_reasons
from firn.drains.store import StoreLoader
from firn.protocol.answers.changes import ChangePlan
from firn.scan.stores import Stores
from firn.spark.errors import AppendRefused, AppendUnknown
from firn.table_handle import TableHandle
from optimizer.errors import JobError
from optimizer.pipelines.inputs import BASE, CHANGE

MOST_BYTES = 64 * 2**20
"""Of the files that are read for the current rows of a few keys: more are read by Spark's tasks, beside each other."""
TRIES = 4
"""Of a commit that comes after another one, as Iceberg's Java does it."""
_REFUSALS = (BadRequestError, ForbiddenError, NoSuchTableError, UnauthorizedError, ValidationError)


class TooManyBytes(Exception):
    """The files with the rows of some keys are too large for this process."""


@dataclass(frozen=True)
class StoreFiles:
    """The way to the files of keyed tables: `open_table` gives a loader of the stores of one.

    `check` raises Refused if the run may not open one of some files.
    """

    open_table: Callable[[TableHandle], StoreLoader]
    check: Callable[[Sequence[str]], None] = lambda _: None

    def read_rows(self, handle: TableHandle, plan: ChangePlan, keys: pa.Table) -> pa.Table | str:
        """The merged rows of these keys at the plan's version; why not, if only Spark can read them.

        Raises Refused for a file that the run may not open.
        """
        loader = self.open_table(handle)
        try:
            stores = Stores(loader.load(BASE), loader.load(CHANGE), plan, check=self.check, measure=_Measure().add)
            kinds = pa.schema([stores.target.field(name) for name in keys.column_names])
            return stores.read_state(plan.until, keys.cast(kinds))
        except (JobError, httpx.HTTPError):
            raise
        except Exception as error:  # noqa: BLE001 -- PyIceberg and PyArrow raise many types for what they cannot read
            return str(error) or type(error).__name__

    def open_changes(self, handle: TableHandle) -> ChangeFiles | str:
        """The way to write changes of a table; why not, if only Spark writes its files."""
        loader = self.open_table(handle)
        layout = ChangeLayout.of(loader.load(CHANGE))
        reasons = find_table_reasons(layout)
        return reasons[0] if reasons else ChangeFiles(loader, layout)


@dataclass
class _Measure:
    """Adds up what is read."""

    total: int = 0

    def add(self, size: int) -> None:
        """Raise TooManyBytes with the bytes that exceed the limit."""
        self.total += size
        if self.total > MOST_BYTES:
            raise TooManyBytes(f"{self.total:,} bytes of files may have them")


@dataclass
class ChangeFiles:
    """Writes changes into the change store of a table, one for each key."""

    loader: StoreLoader
    layout: ChangeLayout
    files: list[DataFile] = field(default_factory=list)

    def append(self, rows: pa.Table, summary: dict[str, str]) -> None:
        """Append the changes in one commit. Files are written once, also if the commit is tried again.

        Raises AppendRefused if the catalog did not take the commit, AppendUnknown if nobody knows.
        """
        layout = self.layout
        self.files = self.files or write_files(layout.table, rows.cast(_keep(layout, rows)))
        for attempt in range(1, TRIES + 1):
            table: Any = layout.table if attempt == 1 else self.loader.load(CHANGE)
            try:
                Append(table, self.files, layout.table.spec().spec_id, summary).commit()
            except CommitFailedException as error:  # another commit came first, or the writer's position has moved
                if attempt == TRIES:
                    raise AppendRefused(str(error)) from error
            except _REFUSALS as error:
                raise AppendRefused(str(error)) from error
            except Exception as error:  # with many types; the answer may be what is missing
                raise AppendUnknown(str(error) or type(error).__name__) from error
            else:
                return


def _keep(layout: ChangeLayout, rows: pa.Table) -> pa.Schema:
    """The types of the store for the columns of the changes, in their order."""
    return pa.schema([layout.target.field(name) for name in rows.column_names])
