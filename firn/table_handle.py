"""One table of a server: `client.tables["db.orders"]`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from urllib.parse import quote
from uuid import UUID

import firn.drains
import firn.scan
from firn.changes import Position, read_changes, write_position, write_range
from firn.consumers import TableConsumers
from firn.descriptions import build_change, build_column_change
from firn.distributions import count_column
from firn.drains.engine import require_packages
from firn.history import TableHistory
from firn.lineage import TableLineage
from firn.logs import TableLog
from firn.names import Name
from firn.protocol.answers.blockers import TableBlockerOut
from firn.protocol.answers.changes import FileChangesOut
from firn.protocol.answers.columns import TableColumnsOut
from firn.protocol.answers.distributions import ColumnDistributionOut
from firn.protocol.answers.dropped import DropOut
from firn.protocol.answers.health import TableHealthOut
from firn.protocol.answers.jobs import JobOut
from firn.protocol.answers.tables import NextOut, TableOut
from firn.protocol.changes import Each, Images
from firn.scan_extra import require_scan
from firn.table_jobs import TableJobs
from firn.transport import Json, Transport
from firn.writers import TableWriters

if TYPE_CHECKING:
    import pyarrow as pa

    from firn.drains.drain import Drained


@dataclass(frozen=True, slots=True)
class TableHandle(TableHistory, TableJobs, TableLineage):
    """One table, by name; whether there is one shows when something is asked of it."""

    transport: Transport
    name: Name
    token: str | None = None

    def show(self) -> TableOut:
        """Everything about it."""
        return TableOut.read(self.get(""))

    def explain(self) -> NextOut:
        """A job that is due, or why none is."""
        return NextOut.read(self.get("/explain"))

    def columns(self) -> TableColumnsOut:
        """Nulls, ranges, sizes and distinct values of its columns, from manifests and statistics files."""
        return TableColumnsOut.read(self.get("/columns"))

    def distribution(self, column: str) -> ColumnDistributionOut:
        """How the values of a column are distributed: the server reads all its rows, with the caller's rights."""
        return count_column(self.transport, self.path_to("/distributions"), column)

    def health(self, *, measure: bool = False) -> TableHealthOut:
        """How far it is from having nothing to do, and what takes the points; with `measure` also the partitions' skew,
        for which the server reads the manifests.
        """
        return TableHealthOut.read(self.get("/health", {"measure": "true"} if measure else None))

    @property
    def consumers(self) -> TableConsumers:
        """The consumers of its changes."""
        return TableConsumers(self.transport, self.path_to("/consumers"))

    @property
    def writers(self) -> TableWriters:
        """The writers that record their positions in it."""
        return TableWriters(self.transport, self.path_to("/writers"))

    @property
    def log(self) -> TableLog:
        """Its log: a topic of Kafka whose records become changes."""
        return TableLog(self.transport, self.path_to("/log"))

    def drain(self, *, password: str | None = None) -> Drained:
        """Bring all records of its log to it, up to the last stable offset of now, without Spark.

        `password` is that of the user of the log's connection, by default $FIRN_KAFKA_PASSWORD. An earlier drain that
        still runs is fenced. Raises NeedsSpark if only `firn.spark.drain` can do it, or the rest of it: earlier batches
        are in the table then. Raises Refused while an optimizer drains the table, and DrainStopped if a user has to
        act. Start it again after any error: no record is lost, and none is there twice.
        """
        require_packages()
        return firn.drains.open_light_drain(self, password=password).run()

    def changes(
        self,
        *,
        since: Position,
        until: Position | None = None,
        images: Images | str = Images.AFTER,
        each: Each | str = Each.NET,
    ) -> pa.Table:
        """The changes after version, time or consumer `since`, up to `until` or the newest version, without Spark.

        By default one *net* change for each key; `each="change"` gives every change that took effect. With
        `images="both"` each has the row before and after it. Refused if the history at `since` has expired; the error
        names the first version that is left. `firn.changes.read_version` tells up to which version the rows reach.
        """
        require_scan()
        plan = self.get("/changes/plan", write_range(since, until, each))
        source = firn.scan.Served(
            transport=self.transport, token=self.token, catalog=self.name.catalog, table=self.name.table
        )
        return read_changes(source, plan, images=images, each=each)

    def changed_files(self, *, since: Position, until: Position | None = None) -> FileChangesOut:
        """The files of a table without a primary key that differ between two snapshots, with their deletes.

        `since` and `until` are snapshots, branches, tags or times; `since=0` is the empty table. For programs that
        compute the changes themselves: `firn.spark.read_changes` does.
        """
        end = None if until is None else write_position(until)
        return FileChangesOut.read(self.get("/changes/files", {"since": write_position(since), "until": end}))

    def blockers(self) -> list[TableBlockerOut]:
        """What keeps jobs from it now."""
        return [TableBlockerOut.read(document) for document in self.get("/blockers")]

    def block(self, reason: str, *, until: datetime, kinds: Sequence[str] = ()) -> TableBlockerOut:
        """Keep jobs of these kinds, or of any, from beginning; a running one goes on."""
        body = {"reason": reason, "until": until.isoformat(), "kinds": list(kinds)}
        return TableBlockerOut.read(self.transport.change("POST", self.path_to("/blockers"), body))

    def unblock(self, blocker: UUID | None = None) -> None:
        """Lift one blocker, or all of them."""
        params = {} if blocker is None else {"blocker": str(blocker)}
        self.transport.change("DELETE", self.path_to("/blockers"), params=params)

    def get(self, part: str, params: Mapping[str, str | int | None] | None = None) -> Json:
        """One of its parts: `/files`, `/snapshots`, `/versions`, `/policy`."""
        return self.transport.get(self.path_to(part), params)

    def jobs(self, limit: int | None = None) -> list[JobOut]:
        """Newest first."""
        return [JobOut.read(document) for document in self.transport.items(self.path_to("/jobs"), limit=limit)]

    def set_properties(self, updates: Mapping[str, str], removals: Sequence[str] = ()) -> TableOut:
        """Set and remove properties; policy settings are checked."""
        body = {"set": dict(updates), "remove": list(removals)}
        return TableOut.read(self.transport.change("PATCH", self.path_to("/properties"), body))

    def change_policy(self, updates: Mapping[str, str], removals: Sequence[str] = ()) -> Json:
        """Set and remove policy settings; the policy as it holds afterwards. Invalid for a key that is no setting."""
        body = {"set": dict(updates), "remove": list(removals)}
        return self.transport.change("PATCH", self.path_to("/policy"), body)

    def describe(
        self,
        *,
        comment: str | None = None,
        owner: str | None = None,
        add_labels: Sequence[str] = (),
        remove_labels: Sequence[str] = (),
        columns: Mapping[str, str] | None = None,
    ) -> TableOut:
        """Change its comment, owner and labels, and the comments of columns, in one commit.

        None leaves a text as it is, and an empty text removes it. Columns that others alter at the same time stay
        altered.
        """
        body = build_change(comment, owner, add_labels, remove_labels)
        body["columns"] = {name: build_column_change(text) for name, text in (columns or {}).items()}
        return TableOut.read(self.transport.change("PATCH", self.path_to("/description"), body))

    def describe_column(
        self,
        column: str,
        *,
        comment: str | None = None,
        add_labels: Sequence[str] = (),
        remove_labels: Sequence[str] = (),
    ) -> TableOut:
        """Change the comment and the labels of a column, or of a nested field such as `address.city`."""
        change = build_column_change(comment, add_labels, remove_labels)
        body = {"columns": {column: change}}
        return TableOut.read(self.transport.change("PATCH", self.path_to("/description"), body))

    def drop(self, *, purge: bool = False) -> DropOut:
        """Drop it, with its stores; while the catalog keeps it `client.dropped` brings it back.

        With `purge` its files are deleted after that.
        """
        return DropOut.read(self.transport.change("DELETE", self.path_to(""), params={"purge": purge}))

    def protect(self, *, protected: bool = True) -> Json:
        """Protect it against being dropped, or lift the protection."""
        return self.transport.change("POST", self.path_to("/protect" if protected else "/unprotect"))

    def register(self, metadata_location: str, *, overwrite: bool = False, dry_run: bool = False) -> Json:
        """Take over an existing Iceberg table by its current metadata file."""
        body = {"metadata_location": metadata_location, "overwrite": overwrite, "dry_run": dry_run}
        return self.transport.change("POST", self.path_to("/register"), body)

    def path_to(self, part: str) -> str:
        """The address of one of its parts."""
        return f"/catalogs/{_quoted(self.name.catalog)}/tables/{_quoted(self.name.table)}{part}"


def _quoted(part: str) -> str:
    return quote(part, safe="")
