"""Points the metastore to published files: the end of every publish, and the start of every sync.

Base contains the new files already, and the baseline says so. If the server dies here, both show the next one how far
it came (docs/protocols.md, rule 3.4). A partition that Hive has changed meanwhile stays where it is: the server gives
its publish up, and a sync takes over Hive's change.

If the metastore has locks, the server checks and repoints under one: writers that use locks come before both or after
both. A partition that a writer has locked waits, and delays no other.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from catalog.errors import AlreadyExists, CatalogError, CommitUnknown, Conflict, Unavailable
from catalog.hive.baseline import ChangeSignals, PartitionBaseline, WatchedDirectory
from catalog.hive.link import HiveLink
from catalog.hive.listing import Subdirectories
from catalog.hive.model import HiveTable
from catalog.hive.partition_names import parse_partition_name
from catalog.hive.publishing import find_published_sequence
from catalog.hive.repoint_decisions import (
    InHive,
    RepointDecision,
    RepointKind,
    decide_repoints,
)
from catalog.names import RelationId
from catalog.planning.trigger_result import format_count
from catalog.ports.files import TableFiles
from catalog.ports.metastore import Metastore, PartitionLocation, PartitionMove, TableLock
from catalog.ports.store import Database
from catalog.tables.relation import Relation
from server.service.hive.hive_state import read_some, split_name
from server.service.hive.publisher import Publishers, explain_other_publisher
from server.service.hive.schema_sync import explain_unfit
from server.service.hive.table_index import HiveIndex
from server.service.planning.policies import load_stored_policy

log = logging.getLogger(__name__)

TOGETHER = 200
"""Partitions that the server locks together, and notes in one transaction, which reads all baselines."""
AT_ONCE = 20
"""Partitions that one call moves. The server reads each right before, in case a tool takes no locks."""
LONGEST_LOCKED_NS = 600 * 10**9
"""The time for which a publish waits for a lock. After that a sync gives it up and reads the holder's changes."""
UNCOUNTED = ("rawDataSize", "COLUMN_STATS_ACCURATE")
"""Statistics that are out of date after a publish: engines must not answer from them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switched:
    """The result for a table's open publishes."""

    done: int = 0
    skipped: int = 0
    remaining: int = 0
    """Publishes still open, because others hold a lock or the metastore did not answer."""
    locked: int = 0
    """The part of `remaining` that others have locked."""
    holders: str = ""
    """The holder of one of the locks."""

    @property
    def has_any(self) -> bool:
        """Whether the table had an open publish."""
        return bool(self.done or self.skipped or self.remaining)

    def __add__(self, other: Switched) -> Switched:
        return Switched(
            done=self.done + other.done,
            skipped=self.skipped + other.skipped,
            remaining=self.remaining + other.remaining,
            locked=self.locked + other.locked,
            holders=self.holders or other.holders,
        )

    @property
    def why_left(self) -> str:
        """Why publishes are still open."""
        if self.locked:
            return (
                f"{format_count(self.locked, 'partition')}, which others have locked in the metastore: {self.holders}"
            )
        return (
            f"the metastore does not say whether the publish of {format_count(self.remaining, 'partition')} has landed"
        )


@dataclass(frozen=True)
class Repointer:
    """Repoints the metastore; safe to run at any time, by any number of servers."""

    database: Database
    index: HiveIndex
    files: TableFiles

    @property
    def owners(self) -> Publishers:
        """The publishers of Hive tables."""
        return Publishers(self.database, self.index)

    def finish(self, relation: Relation) -> Switched:
        """Finish or give up each open publish of a table; Unavailable when the metastore does not answer."""
        with self.database.reading() as uow:
            link = uow.baselines.link(relation.id)
            names = [name for name, stored in uow.baselines.of(relation.id).items() if stored["publishing"]]
            if link is None:
                return Switched()
            subdirectories = Subdirectories(load_stored_policy(uow, relation)["firn.hive.subdirectories"])
        total = Switched()
        for some in [names[at : at + TOGETHER] for at in range(0, len(names), TOGETHER)]:
            # Others are waited for once: what they have locked then, they will hold for longer.
            total += self._some(relation, link, some, subdirectories, wait=not total.locked)
        return total

    def still_waits(self, relation: Relation, switched: Switched) -> bool:
        """Whether the open publishes only wait for locks, and not for too long."""
        if not switched.locked:
            return False
        with self.database.reading() as uow:
            stored = uow.baselines.of(relation.id).values()
            since = [
                baseline.publishing.since_ns
                for baseline in map(PartitionBaseline.from_json, stored)
                if baseline.publishing is not None
            ]
        return time.time_ns() - min(since, default=0) < LONGEST_LOCKED_NS

    def give_up(self, relation: Relation) -> None:
        """End each open publish without an answer of the metastore; the next sync sees where it points.

        Nothing is lost: the baseline knows the published files, wherever the metastore points.
        """
        with self.database.writing() as uow:
            stored, now_ns = uow.baselines.of(relation.id), time.time_ns()
            baselines = {name: PartitionBaseline.from_json(kept) for name, kept in stored.items()}
            up = {
                name: baseline.give_up_publish(now_ns).to_json()
                for name, baseline in baselines.items()
                if baseline.publishing is not None
            }
            uow.baselines.put(relation.id, up)

    def point_back(
        self,
        relation: Relation,
        table: HiveTable,
        places: Mapping[str, PartitionLocation],
        superseded: Mapping[str, str],
    ) -> Mapping[str, str]:
        """Point the metastore at superseded directories again; return the locked partitions, with the locks' holders.

        A partition that somebody else moves meanwhile stays there.
        """
        metastore = self.index.metastore(relation.catalog)
        with metastore.lock(table.database, table.name, [*superseded], wait=False) as lock:
            for name, location in superseded.items():
                if name not in lock.busy:
                    with suppress(Conflict, AlreadyExists):
                        metastore.move(table.database, table.name, places[name], location, {})
        return lock.busy

    def _some(
        self,
        relation: Relation,
        link: HiveLink,
        partitions: Sequence[str],
        subdirectories: Subdirectories,
        *,
        wait: bool,
    ) -> Switched:
        metastore, names = self.index.metastore(relation.catalog), split_name(relation.hive_name or "")
        with metastore.lock(*names, partitions, wait=wait) as lock:
            table, hive, baselines = self._detect(relation, link, partitions, lock, subdirectories)
            decisions = decide_repoints(baselines, hive)
            ended = {} if table is None else dict(self._apply(_Locked(metastore, table, lock), decisions, hive.signals))
        self._note(relation.id, baselines, ended, lock_warning=lock.without)
        locked = [decision for decision in decisions.values() if decision.kind is RepointKind.WAIT]
        done = sum(_is_switched(baseline, baselines[name]) for name, baseline in ended.items())
        return Switched(
            done=done,
            skipped=len(ended) - done,
            remaining=len(baselines) - len(ended),
            locked=len(locked),
            holders=locked[0].reason if locked else "",
        )

    def _detect(
        self,
        relation: Relation,
        link: HiveLink,
        partitions: Sequence[str],
        lock: TableLock,
        subdirectories: Subdirectories,
    ) -> tuple[HiveTable | None, InHive, dict[str, PartitionBaseline]]:
        """Read the table, Hive's state of its partitions, and the publishes that are still open.

        Another server may have ended some of them meanwhile. If all are locked, there is no table in the answer.
        """
        baselines = self._open(relation.id, partitions)
        free = {name: baseline for name, baseline in baselines.items() if name not in lock.busy}
        if not free:
            return None, InHive(signals={}, locked=lock.busy), baselines
        metastore, names = self.index.metastore(relation.catalog), split_name(relation.hive_name or "")
        state = read_some(metastore, *names, [*free])
        unfit = explain_unfit(link, state.table)  # made anew, perhaps: none of it is where it was
        if unfit is None and (other := self.owners.other(state.table, relation.id)) is not None:
            unfit = explain_other_publisher(state.table, other)
        signals = {unit.name: unit.signals for unit in state.units}
        overtaken = set[str]() if unfit else state.find_changed(free, self.files, subdirectories)
        return state.table, InHive(signals=signals, locked=lock.busy, unfit=unfit, overtaken=overtaken), baselines

    def _open(self, relation_id: RelationId, names: Sequence[str]) -> dict[str, PartitionBaseline]:
        with self.database.reading() as uow:
            stored = uow.baselines.of(relation_id)
        return {
            name: PartitionBaseline.from_json(stored[name])
            for name in names
            if name in stored and stored[name]["publishing"]
        }

    def _apply(
        self, locked: _Locked, decisions: Mapping[str, RepointDecision], signals: Mapping[str, ChangeSignals]
    ) -> Iterator[tuple[str, PartitionBaseline]]:
        """Yield the new baselines of publishes that have ended."""
        moved: dict[bool, list[str]] = {True: [], False: []}
        for name, decision in decisions.items():
            baseline = decision.facts
            if decision.kind is RepointKind.DONE:
                yield name, baseline.finish_publish(signals[name], time.time_ns())
            elif decision.kind is RepointKind.GIVE_UP:
                yield name, baseline.give_up_publish(time.time_ns())
            elif decision.kind is RepointKind.MOVE:
                moved[baseline.is_dropped].append(name)
        # Without a lock each is read right before it is moved.
        size = AT_ONCE if locked.lock.without is None else 1
        for names in moved.values():  # those that are there, and those that are made
            for at in range(0, len(names), size):
                yield from self._moved(locked, {name: decisions[name].facts for name in names[at : at + size]})

    def _moved(
        self, locked: _Locked, baselines: Mapping[str, PartitionBaseline]
    ) -> Iterator[tuple[str, PartitionBaseline]]:
        """Yield the baselines of moved and refused partitions; a partition with an unknown outcome stays open."""
        table = locked.table
        moves = {name: _move(table, name, baseline) for name, baseline in baselines.items()}
        try:
            locked.lock.keep()
            signals = locked.move(list(moves.values()))
        except (CommitUnknown, Unavailable) as error:
            log.warning("%s: %s", table.full_name, error)
        except CatalogError as error:  # it says that nothing has moved: changed meanwhile, gone, or not allowed
            if len(baselines) > 1:  # about one of them
                for name, baseline in baselines.items():
                    yield from self._moved(locked, {name: baseline})
                return
            log.warning("%s: not published: %s", table.full_name, error)
            yield from ((name, baseline.give_up_publish(time.time_ns())) for name, baseline in baselines.items())
        else:
            for (name, baseline), now in zip(baselines.items(), signals, strict=True):
                yield name, baseline.finish_publish(now, time.time_ns())

    def _note(
        self,
        relation_id: RelationId,
        before: Mapping[str, PartitionBaseline],
        ended: Mapping[str, PartitionBaseline],
        *,
        lock_warning: str | None,
    ) -> None:
        """Store the baselines of ended publishes, unless another server has stored them meanwhile."""
        if not ended:
            return
        with self.database.writing() as uow:
            link = uow.baselines.link(relation_id)
            if link is None:
                return
            stored = uow.baselines.of(relation_id)
            current = {name: PartitionBaseline.from_json(kept) for name, kept in stored.items()}
            mine = {name: baseline for name, baseline in ended.items() if current.get(name) == before[name]}
            uow.baselines.put(relation_id, {name: baseline.to_json() for name, baseline in mine.items()})
            through = find_published_sequence((current | mine).values(), link.published_through)
            uow.baselines.put_link(relation_id, link.with_repoint(through, lock_warning))


@dataclass(frozen=True, slots=True)
class _Locked:
    """A table in the metastore under the lock of some partitions, or without one where it has no locks."""

    metastore: Metastore
    table: HiveTable
    lock: TableLock

    def move(self, moves: Sequence[PartitionMove]) -> Sequence[ChangeSignals]:
        """See Metastore.move and move_all: one alone may be the table itself."""
        database, name = self.table.database, self.table.name
        if len(moves) > 1:
            return self.metastore.move_all(database, name, moves, columns_of_table=True)
        [move] = moves
        place, location = move.place, move.location
        return [self.metastore.move(database, name, place, location, move.parameters, columns_of_table=True)]


def _move(table: HiveTable, name: str, baseline: PartitionBaseline) -> PartitionMove:
    to = baseline.publishing
    assert to is not None  # it is among those that are open
    values = parse_partition_name(table.partition_columns, name) if table.partition_columns else ()
    place = PartitionLocation(values=values, location=None if baseline.is_dropped else baseline.location)
    return PartitionMove(place=place, location=to.location, parameters=_parameters(to))


def _is_switched(baseline: PartitionBaseline, before: PartitionBaseline) -> bool:
    return before.publishing is not None and baseline.files == before.publishing.files and not baseline.is_dropped


def _parameters(directory: WatchedDirectory) -> dict[str, str | None]:
    """The statistics of a partition's files for the metastore."""
    counted: dict[str, str | None] = {
        "numFiles": str(len(directory.files)),
        "totalSize": str(sum(file.size for file in directory.files)),
        "numRows": None if directory.rows is None else str(directory.rows),
        "transient_lastDdlTime": str(time.time_ns() // 10**9),
    }
    return counted | dict.fromkeys(UNCOUNTED)
