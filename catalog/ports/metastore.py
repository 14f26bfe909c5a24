"""What Firn asks of a Hive Metastore and of the directories that it names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from catalog.hive.baseline import ChangeSignals, Listing
from catalog.hive.model import HiveColumn, HiveDatabase, HivePartition, HiveTable
from catalog.hive.notification_log import NotificationBatch


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionLocation:
    """A partition, by its values, or without any the table itself; and the location it is expected at.

    None where there is no such partition yet: then it is made.
    """

    values: tuple[str, ...]
    location: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMove:
    """A place, where it is to be pointed at, and its `parameters`: set, or removed where they are None."""

    place: PartitionLocation
    location: str
    parameters: Mapping[str, str | None]


class TableLock(Protocol):
    """What came of asking the metastore for a lock."""

    @property
    def without(self) -> str | None:
        """Why there is none, and nobody is kept away; None for a lock."""

    @property
    def busy(self) -> Mapping[str, str]:
        """What others have locked, by the names that were asked for, and who: that is not locked for us."""

    def keep(self) -> None:
        """Say that it is still needed; Unavailable when that cannot be said, or the metastore has ended it."""


class Metastore(Protocol):
    """One Hive Metastore.  Safe to share between threads.

    Reads raise NotFound for a name that is not there and Unavailable when no metastore answers.  Names are Hive's:
    lower case, without quotes.
    """

    def databases(self) -> list[str]:
        """Names of all databases, sorted."""

    def database(self, name: str) -> HiveDatabase: ...

    def tables(self, database: str) -> list[str]:
        """Names of the tables and views in a database, sorted."""

    def table(self, database: str, name: str) -> HiveTable: ...

    def tables_detail(self, database: str, names: Sequence[str]) -> list[HiveTable]:
        """Many tables in few calls; a table that is gone is left out, no matter when it went."""

    def partition_names(self, database: str, name: str) -> list[str]:
        """Names of all partitions, however many; [] for a table that is not partitioned."""

    def partitions(self, database: str, name: str, names: Sequence[str]) -> list[HivePartition]:
        """The named partitions in few calls; one that is gone is left out."""

    def set_table_parameters(
        self, database: str, name: str, parameters: Mapping[str, str], *, remove: Collection[str] = ()
    ) -> None:
        """Set and remove parameters of a table and leave the rest of it, its DDL time included, as it is.

        Setting what is set already changes nothing.  The metastore has no compare-and-set: a change that somebody else
        makes between our read and our write, a moment later, is lost.
        Raises NotFound, Invalid when the metastore refuses the change, Unavailable when nothing was sent, and
        CommitUnknown when the change may have been made.
        """

    def lock(
        self, database: str, name: str, partitions: Sequence[str], *, wait: bool = True
    ) -> AbstractContextManager[TableLock]:
        """Keep others from writing to some partitions of a table, or with `[""]` to the whole of it, for the block.

        Those are kept away who ask for locks themselves, as Hive does where its locks are on. Readers are not. What
        others hold is waited for, for a short while, unless not to `wait`; the rest is locked without it.
        It ends with the block, or, should that not be possible, when the metastore sees that nobody keeps it.
        Unavailable when the metastore does not answer.
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
        """Point a partition, or a table without partitions, at another directory; what the metastore says of it then.

        Its `parameters` are set, or removed where they are None; with `columns_of_table` a partition that was made
        before columns were added gets them. The rest stays as it is, its DDL time included.
        Compare and set is as good as the metastore lets it be: what is there is read a moment before it is changed.
        Raises Conflict when it is not at `place.location` any more, or is there though it was not to be, NotFound
        without the table or the partition, Invalid when the metastore refuses, Unavailable when nothing was sent, and
        CommitUnknown when it may have been moved.
        """

    def move_all(
        self, database: str, name: str, moves: Sequence[PartitionMove], *, columns_of_table: bool = False
    ) -> Sequence[ChangeSignals]:
        """`move` of several partitions in few calls: all are moved or none, as all are there already or none is.

        For as many as are read and written within a moment: what is there is read before the first is changed.
        Errors as of `move`, whichever partition they are about.
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
        """Give a table other columns; its partition columns and all else of it stay, times and statistics included.

        With `cascade` its partitions get the same columns, in the metastore's own transaction.
        Compare and set as in `move`: raises Conflict when the columns are not the `expected` ones any more, NotFound
        without the table, Invalid when the metastore refuses, as it does for types that it takes for incompatible,
        Unavailable when nothing was sent, and CommitUnknown when it may have been altered.
        """

    def notices(self, after: int | None) -> NotificationBatch | None:
        """What the metastore's log of changes says behind an entry; for None only where the log ends.

        None when it keeps no log. Of much at once only the newest entries come, and a log that ends earlier than
        `after` is a new one, of which nothing comes but where it ends.
        """

    def health(self) -> str:
        """The metastore's own version; Unavailable when it does not answer."""


class Listings(Protocol):
    """Directories that hold Hive's files.  Safe to share between threads."""

    def list(self, location: str, *, recursive: bool = False) -> Listing:
        """Data files in a directory, hidden and empty ones left out; one that does not exist holds none.

        With `recursive` also those in the directories below it, which else are named and not looked into.

        Raises Unavailable when the storage does not answer: that is never an empty listing.
        """

    def list_all(self, locations: Sequence[str], *, recursive: bool = False) -> Iterator[Listing]:
        """Many directories, in the order asked."""

    def modified_ns(self, location: str) -> int | None:
        """When a file was last added, removed or renamed in a directory; None where its storage does not say."""
