"""The stores of a run's table as PyArrow reads and writes them, in this process and without Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

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
from pyiceberg.table import Table

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

    def write_changes(self, handle: TableHandle, rows: pa.Table) -> WrittenChanges | str:
        """Write changes, one for each key, to files that nothing names yet; why not, if only Spark can."""
        loader = self.open_table(handle)
        try:
            layout = ChangeLayout.of(loader.load(CHANGE))
            reasons = find_table_reasons(layout)
            if reasons:
                return reasons[0]
            kinds = pa.schema([layout.target.field(name) for name in rows.column_names])
            files = write_files(layout.table, rows.cast(kinds))
        except (JobError, httpx.HTTPError):
            raise
        except Exception as error:  # noqa: BLE001 -- Java may have access to files that Python does not have
            return str(error) or type(error).__name__
        return WrittenChanges(loader, layout.table, files)


@dataclass
class _Measure:
    """Adds up what is read."""

    total: int = 0

    def add(self, size: int) -> None:
        """Raise TooManyBytes with the bytes that exceed the limit."""
        self.total += size
        if self.total > MOST_BYTES:
            raise TooManyBytes(f"{self.total:,} bytes of files may have them")


@dataclass(frozen=True)
class WrittenChanges:
    """Files of changes for the change store, which `table` was when they were written."""

    loader: StoreLoader
    table: Table
    files: Sequence[DataFile]

    def append(self, summary: Mapping[str, str]) -> None:
        """Append them in one commit.

        Raises AppendRefused if the catalog did not take the commit, AppendUnknown if nobody knows.
        """
        table, spec_id = self.table, self.table.spec().spec_id
        for attempt in range(1, TRIES + 1):
            try:
                Append(table, self.files, spec_id, summary).commit()
            except CommitFailedException as error:  # another commit came first, or the writer's position has moved
                if attempt == TRIES:
                    raise AppendRefused(str(error)) from error
                table = self.loader.load(CHANGE)
            except _REFUSALS as error:
                raise AppendRefused(str(error)) from error
            except Exception as error:  # of many types; the answer may be what is missing
                raise AppendUnknown(str(error) or type(error).__name__) from error
            else:
                return
