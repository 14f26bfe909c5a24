"""Ports to a Hive Metastore, and to the directories that it names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from catalog.hive.baseline import ChangeSignals
from catalog.hive.listing import Listing
from catalog.hive.model import HiveColumn, HiveDatabase, HivePartition, HiveTable
from catalog.hive.notification_log import NotificationBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLocation:
    """A partition by its values, or the table itself without values, and its expected location.

    None if the partition does not exist yet; then it is created.
    """

    values: tuple[str, ...]
    location: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMove:
    """A partition or table, its new location, and its `parameters` to set; None removes one."""

    place: PartitionLocation
    location: str
    parameters: Mapping[str, str | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class LockHolder:
    """Another program that holds, or waits for, a lock to write to a partition, or to the table if that is empty."""

    partition: str
    holder: str
    since: datetime | None


class TableLock(Protocol):
    """The result of a lock request to the metastore."""

    @property
    def without(self) -> str | None:
        """Why there is no lock and no protection; None if there is a lock."""

    @property
    def busy(self) -> Mapping[str, str]:
        """The requested names that others have locked, with the holders. They are not locked for us."""

    def keep(self) -> None:
        """Renew the lock; Unavailable if that fails, or if the metastore has ended it."""


class Metastore(Protocol):
    """One Hive Metastore. Safe to share between threads.

    Reads raise NotFound for a missing name and Unavailable if no metastore answers. Names are Hive's: lower case,
    without quotes.
    """

    def databases(self) -> list[str]:
        """Names of all databases, sorted."""

    def database(self, name: str) -> HiveDatabase: ...

    def tables(self, database: str) -> list[str]:
        """Names of the tables and views in a database, sorted."""

    def table(self, database: str, name: str) -> HiveTable: ...

    def tables_detail(self, database: str, names: Sequence[str]) -> list[HiveTable]:
        """Many tables in few calls; missing tables are left out, whenever they were dropped."""

    def primary_key(self, database: str, name: str) -> list[str]:
        """The columns of the declared primary key in their order, which Hive does not enforce; [] without one."""

    def partition_names(self, database: str, name: str) -> list[str]:
        """Names of all partitions, however many; [] for an unpartitioned table."""

    def partitions(self, database: str, name: str, names: Sequence[str]) -> list[HivePartition]:
        """The named partitions in few calls; missing ones are left out."""

    def set_table_parameters(
        self, database: str, name: str, parameters: Mapping[str, str], *, remove: Collection[str] = ()
    ) -> None:
        """Set and remove parameters of a table. All else stays as it is, also its DDL time.

        Setting a current value changes nothing. The metastore has no compare-and-set: a concurrent change between our
        read and our write, a moment later, is lost.

        Raises NotFound, Invalid if the metastore refuses the change, Unavailable if nothing was sent, and
        CommitUnknown if the change may have been made.
        """

    def lock(
        self, database: str, name: str, partitions: Sequence[str], *, wait: bool = True
    ) -> AbstractContextManager[TableLock]:
        """Keep others from writing to some partitions of a table, or with `[""]` to all of it, for the block.

        This stops only writers that take locks themselves, as Hive does with its locks on; it stops no readers. With
        `wait`, the call waits shortly for locks of others and then locks the rest without them.

        The lock ends with the block, or later, when the metastore notices that nobody renews it. Unavailable if the
        metastore does not answer.
        """

    def lock_holders(self, database: str, name: str) -> Sequence[LockHolder]:
        """List the writers with a lock on the table or a partition, without Firn itself; [] without any locks.

        Writers that take no locks, such as Spark, are never among them. Unavailable without an answer.
        """

    def move(
        self,
        database: str,
        name: str,
        place: PartitionLocation,
        location: str,
        parameters: Mapping[str, str | None],
        *,
        columns_of_table: bool = False,
    ) -> ChangeSignals:
        """Point a partition, or an unpartitioned table, at another directory; returns its change signals afterwards.

        Sets `parameters`, or removes those that are None. With `columns_of_table`, a partition older than the table's
        last column change gets the table's columns. All else stays as it is, also its DDL time.

        Compare and set is as good as the metastore allows: it reads the state a moment before it changes it. Raises
        Conflict if it is no longer at `place.location`, or exists unexpectedly, NotFound without the table or the
        partition, Invalid if the metastore refuses, Unavailable if nothing was sent, and CommitUnknown if it may have
        been moved.
        """

    def move_all(
        self, database: str, name: str, moves: Sequence[PartitionMove], *, columns_of_table: bool = False
    ) -> Sequence[ChangeSignals]:
        """`move` for several partitions in few calls. All are moved or none, and all must exist already or none.

        Give only as many as can be read and written within a moment, because all are read before the first is changed.
        Errors are those of `move` for any of the partitions.
        """

    def alter_columns(
        self,
        database: str,
        name: str,
        columns: Sequence[HiveColumn],
        *,
        expected: Sequence[HiveColumn],
        cascade: bool,
    ) -> None:
        """Replace the columns of a table. Partition columns and all else stay, including times and statistics.

        With `cascade` its partitions get the same columns, in the metastore's own transaction.

        Compare and set as in `move`: raises Conflict if the columns are no longer the `expected` ones, NotFound
        without the table, Invalid if the metastore refuses, as for types it considers incompatible, Unavailable if
        nothing was sent, and CommitUnknown if it may have been altered.
        """

    def notices(self, after: int | None) -> NotificationBatch | None:
        """The entries of the notification log after `after`; for None only the position of its end.

        None if the metastore keeps no log. Of very many entries only the newest come. A log that ends before `after`
        is a new log, of which only the end's position comes.
        """

    def health(self) -> str:
        """The metastore's own version; Unavailable if it does not answer."""


class Listings(Protocol):
    """Listings of directories with Hive's files. Safe to share between threads."""

    def list(self, location: str, *, recursive: bool = False) -> Listing:
        """Data files in a directory, without hidden and empty ones; a missing directory holds none.

        With `recursive`, also the files below it. Otherwise subdirectories are named but not read.

        Raises Unavailable if the storage does not answer; it never returns an empty listing then.
        """

    def list_all(self, locations: Sequence[str], *, recursive: bool = False) -> Iterator[Listing]:
        """The listings of many directories, in the order asked."""

    def modified_ns(self, location: str) -> int | None:
        """When a file was last added, removed or renamed in a directory; None if the storage does not say."""
