"""Tables of a catalog's metastore: `client.hive`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote
from uuid import UUID

from firn.errors import NotFound
from firn.jobs import wait_until_final
from firn.protocol.answers.jobs import JobOut
from firn.protocol.answers.operations import BatchOut, OperationOut, StartedOut
from firn.transport import Json, Params

if TYPE_CHECKING:
    from firn.client import Client


_LISTING_SECONDS = 900.0


@dataclass(frozen=True, slots=True)
class Key:
    """What names a row of a table that is to be upgraded, and which change of it is newer."""

    columns: Sequence[str]
    sequence_field: str | None = None

    def to_json(self) -> Json:
        """As the server reads it."""
        return {"primary_key": [*self.columns], "sequence_field": self.sequence_field}


@dataclass(frozen=True, slots=True)
class Hive:
    """Tables of a catalog's metastore, named `database.table` or `catalog.database.table`."""

    client: Client

    def list(
        self,
        catalog: str | None = None,
        *,
        database: str | None = None,
        only: Params | None = None,
        sort: str | None = None,
    ) -> Iterator[Json]:
        """What Firn knows of the metastore's tables, page by page, in the order of `sort`.

        `only` is a filter of the server, such as `{"state": "hive", "max_bytes": 10**9}`.
        """
        return self.client.transport.items(self._root(catalog), {**(only or {}), "database": database, "sort": sort})

    def migration(self, catalog: str | None = None, *, only: Params | None = None) -> Json:
        """How far the migration of the metastore, or of the tables that match, is: counts by state and by blocker."""
        return self.client.transport.get(f"{self._root(catalog)}/migration", only)

    def migration_csv(self, catalog: str | None = None, *, only: Params | None = None) -> str:
        """All tables that match as CSV."""
        return self.client.transport.get_text(f"{self._root(catalog)}/migration/csv", only)

    def views(self, catalog: str | None = None, *, database: str | None = None) -> Iterator[Json]:
        """The views of the metastore, page by page, with their state and their query in Spark SQL."""
        return self.client.transport.items(f"{self._root(catalog)}/views", {"database": database})

    def create_view(self, view: str) -> Json:
        """Create an Iceberg view from a view of the metastore, or replace its query if that has changed there."""
        name = self.client.name(view)
        return self.client.transport.change("POST", f"{self._root(name.catalog)}/views/{quote(name.table, safe='')}")

    def waves(self, catalog: str | None = None) -> Iterator[Json]:
        """Waves of upgrades and checks, newest first, page by page."""
        return self.client.transport.items(f"{self._root(catalog)}/waves")

    def wave(self, wave: UUID | str, catalog: str | None = None) -> Json:
        """One wave in numbers; its tables are `client.operations.list(batch=…)`."""
        return self.client.transport.get(f"{self._root(catalog)}/waves/{wave}")

    def wave_csv(self, wave: UUID | str, catalog: str | None = None) -> str:
        """The report of a wave as CSV, one line for each table."""
        return self.client.transport.get_text(f"{self._root(catalog)}/waves/{wave}/csv")

    def refresh(self, catalog: str | None = None) -> Json:
        """List the metastore now, without waiting for its turn. The answer comes at the end: minutes for 100,000."""
        return self.client.transport.change("POST", f"{self._root(catalog)}/refresh", seconds=_LISTING_SECONDS)

    def show(self, table: str) -> Json:
        """Where one table stands."""
        return self.client.transport.get(self._path(table))

    def history(self, table: str, *, partition: str | None = None) -> Iterator[Json]:
        """What syncs and publishes did to each partition, newest first, page by page."""
        return self.client.transport.items(self._path(table, "/history"), {"partition": partition})

    def superseded_directories(self, table: str) -> Json:
        """What publishes of an upgraded table have left behind: directories, and their bytes."""
        return self.client.transport.get(self._path(table, "/superseded-directories"))

    def check(
        self, table: str, *, primary_key: Sequence[str] = (), properties: Mapping[str, str] | None = None
    ) -> Json:
        """Whether the table can be upgraded: columns, counts, and every blocker by name.  Changes nothing."""
        body = {"primary_key": [*primary_key], "properties": dict(properties or {})}
        return self.client.transport.change("POST", self._path(table, "/check"), body)

    def upgrade(
        self,
        table: str,
        *,
        primary_key: Sequence[str] = (),
        sequence_field: str | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> OperationOut:
        """Make it a Firn table in place; returns at once, the operation tells how far it is."""
        body = {
            "primary_key": [*primary_key],
            "sequence_field": sequence_field,
            "properties": dict(properties or {}),
        }
        return OperationOut.read(self.client.transport.change("POST", self._path(table, "/upgrade"), body))

    def upgrade_many(  # noqa: PLR0913 -- the request of the server has these fields
        self,
        tables: Sequence[str],
        *,
        catalog: str | None = None,
        key: Key | None = None,
        keys: Mapping[str, Key] | None = None,
        properties: Mapping[str, str] | None = None,
        dry_run: bool = False,
        only: Params | None = None,
        key_file: str = "",
        name: str = "",
        stop_after: int | None = None,
        unique: bool = False,
    ) -> StartedOut:
        """Upgrade all tables of these names and patterns (`sales.*`), or with `dry_run` only check them.

        Each is an operation of its own; `keys` are those of single tables, `key_file` is CSV with further ones, `key`
        is for the others. `only` selects further tables by the filter of `list`, such as `{"max_bytes": 10**9}`. They
        are one wave of this `name`, which stops when `stop_after` tables have failed. With `dry_run`, `unique` counts
        the duplicate keys of each table with a key, by reading all its rows.
        """
        body = {
            "tables": [*tables],
            "key": None if key is None else key.to_json(),
            "keys": {name: key.to_json() for name, key in (keys or {}).items()},
            "properties": dict(properties or {}),
            "dry_run": dry_run,
            "filter": None if only is None else dict(only),
            "key_file": key_file,
            "name": name,
            "stop_after": stop_after,
            "unique": unique,
        }
        answer = self.client.transport.change("POST", f"{self._root(catalog)}/upgrade", body)
        return StartedOut.read(answer)

    def batch(self, batch: UUID | str, catalog: str | None = None) -> BatchOut:
        """How far a batch is; its operations are `client.operations.list(batch=…)`."""
        return BatchOut.read(self.client.transport.get(f"{self._root(catalog)}/upgrades/{batch}"))

    def pause_batch(self, batch: UUID | str, catalog: str | None = None) -> BatchOut:
        """Pause everything of it that has not ended."""
        return self._turned(batch, catalog, "pause")

    def resume_batch(self, batch: UUID | str, catalog: str | None = None) -> BatchOut:
        """Resume everything of it that is paused."""
        return self._turned(batch, catalog, "resume")

    def cancel_batch(self, batch: UUID | str, catalog: str | None = None) -> BatchOut:
        """Cancel everything of it that has not ended; what is upgraded stays so."""
        return self._turned(batch, catalog, "cancel")

    def wait_for_batch(
        self,
        batch: UUID | str,
        catalog: str | None = None,
        *,
        seconds: float | None = None,
        on_progress: Callable[[BatchOut], None] = lambda _: None,
        or_paused: bool = False,
    ) -> BatchOut:
        """The batch once all of it has ended; the method calls `on_progress` with each state on the way.

        With `or_paused` also once all the rest is paused, as when failures have stopped a wave.
        """
        return wait_until_final(
            lambda: self.batch(batch, catalog),
            lambda batch: batch.unfinished <= (batch.outcomes.get("paused", 0) if or_paused else 0),
            seconds,
            on_progress,
            f"batch {batch}",
        )

    def _turned(self, batch: UUID | str, catalog: str | None, verb: str) -> BatchOut:
        path = f"{self._root(catalog)}/upgrades/{batch}/{verb}"
        return BatchOut.read(self.client.transport.change("POST", path))

    def sync(self, table: str, *, everything: bool = False, only_schema: bool = False) -> Json:
        """Take over what Hive-side writers did; `everything` lists every directory whatever the metastore says, with
        `only_schema` none is looked at.
        """
        params = {"everything": everything, "only_schema": only_schema}
        return self.client.transport.change("POST", self._path(table, "/sync"), params=params)

    def publish(self, table: str, *, merge: bool = True) -> Json:
        """Give Hive what has changed; with `merge`, the answer may be a merge that has to come first."""
        return self.client.transport.change("POST", self._path(table, "/publish"), params={"merge": merge})

    def wait_for_publish(
        self, table: str, *, seconds: float | None = None, on_progress: Callable[[Json], None] = lambda _: None
    ) -> Json:
        """The publish that was asked for last, once it is over: its `step` is done or failed.

        NotFound when the table was given back meanwhile.
        """

        def load_request() -> Json:
            request: Json | None = self.show(table)["publish_request"]
            if request is None:
                raise NotFound(f"{table} is no longer a table of Firn, so nothing is published to Hive")
            return request

        return wait_until_final(
            load_request,
            lambda request: request["step"] in ("done", "failed"),
            seconds,
            on_progress,
            f"the publish of {table}",
        )

    def preview_publish(self, table: str, *, permissions: bool = False) -> Json:
        """Count the partitions that Hive lacks or has differently; the server reads all manifests of the table.

        With `permissions`, the server tries on an empty directory which permissions it may set.
        """
        params = {"permissions": "true"} if permissions else None
        return self.client.transport.get(self._path(table, "/publish"), params)

    def preview_downgrade(self, table: str) -> Json:
        """What a downgrade has to do, as far as it can be known before."""
        return self.client.transport.get(self._path(table, "/downgrade"))

    def downgrade(self, table: str, *, wait_for_writers: bool = True, purge: bool = False) -> OperationOut:
        """Give it back to Hive with all that was changed, and drop it here; returns at once.

        Without `wait_for_writers` it does not wait for Hive jobs from before the last publish; `purge` deletes its
        own files when the dropped table is kept no longer.
        """
        body = {"wait_for_writers": wait_for_writers, "purge": purge}
        return OperationOut.read(self.client.transport.change("POST", self._path(table, "/downgrade"), body))

    def preview_convert(
        self,
        table: str,
        *,
        name: str | None = None,
        primary_key: Sequence[str] = (),
        sequence_field: str | None = None,
    ) -> Json:
        """What a conversion would read and write anew, and what stands in its way; changes nothing."""
        params = {"name": name, "primary_key": list(primary_key), "sequence_field": sequence_field}
        return self.client.transport.get(
            self._path(table, "/convert"), {key: value for key, value in params.items() if value}
        )

    def convert(
        self,
        table: str,
        *,
        name: str | None = None,
        primary_key: Sequence[str] = (),
        sequence_field: str | None = None,
        unique: bool = True,
    ) -> JobOut:
        """Make a table of its rows by a rewrite, for what cannot be upgraded; returns at once, with the job.

        The table is there from now on, empty until the job has filled it, and does not follow Hive's afterwards. It is
        named like that one unless `name` says otherwise (`namespace.table`, in the same catalog). With a primary key it
        is a keyed table, and is filled only if every key occurs once, or without `unique` whatever its keys are.
        """
        body = {"name": name, "primary_key": list(primary_key), "sequence_field": sequence_field, "unique": unique}
        return JobOut.read(self.client.transport.change("POST", self._path(table, "/convert"), body))

    def _path(self, table: str, verb: str = "") -> str:
        name = self.client.name(table)
        return f"{self._root(name.catalog)}/{_quoted(name.table)}{verb}"

    def _root(self, catalog: str | None) -> str:
        return f"/catalogs/{_quoted(catalog or self.client.catalog)}/hive"


def _quoted(part: str) -> str:
    return quote(part, safe="")
