"""The metastore is pointed at what was published: the end of every publish, and the beginning of every sync.

Base stands on the new files already, and the ground says so: whatever dies here, the next server sees from both how far
it was (rule 3.4). A partition that Hive has changed meanwhile stays where it is: its publish is given up, and a sync
takes over what Hive made of it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from catalog.errors import CatalogError, CommitUnknown, Unavailable
from catalog.hive.ground import Directory, Ground, Signals
from catalog.hive.model import HiveTable
from catalog.hive.names import partition_values
from catalog.hive.ports import Metastore, Place
from catalog.hive.publishing import given
from catalog.names import RelationId
from catalog.places import canonical
from catalog.ports.hive import TableFiles
from catalog.ports.store import Database
from catalog.relation import Relation
from server.service.hive.index import HiveIndex
from server.service.hive.look import why_unfit
from server.service.hive.owners import Owners
from server.service.hive.state import HiveState, read_some, split_name

log = logging.getLogger(__name__)

TOGETHER = 200
"""Partitions whose switches are noted in one transaction, which reads all grounds of the table."""
UNCOUNTED = ("rawDataSize", "COLUMN_STATS_ACCURATE")
"""Engines that answer from statistics must not believe these: nobody has counted them anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Switched:
    """What became of a table's open publishes."""

    done: int = 0
    given_up: int = 0
    left: int = 0
    """Those of which nothing is known, because the metastore did not answer."""


@dataclass(frozen=True)
class Switches:
    """Points the metastore at what was published; safe to run at any time, by any number of servers."""

    database: Database
    index: HiveIndex
    files: TableFiles

    @property
    def owners(self) -> Owners:
        """Who may point the metastore anywhere."""
        return Owners(self.database, self.index)

    def finish(self, relation: Relation) -> Switched:
        """Switch, or give up, all that is open of a table; Unavailable when the metastore is away."""
        with self.database.reading() as uow:
            found = uow.grounds.link(relation.id)
            grounds = {unit: Ground.from_json(stored) for unit, stored in uow.grounds.of(relation.id).items()}
        if found is None:
            return Switched()
        names = [name for name, ground in grounds.items() if ground.publishing is not None]
        total = Switched()
        for some in [names[at : at + TOGETHER] for at in range(0, len(names), TOGETHER)]:
            one = self._some(relation, found[0], {name: grounds[name] for name in some})
            total = Switched(
                done=total.done + one.done, given_up=total.given_up + one.given_up, left=total.left + one.left
            )
        return total

    def give_up(self, relation: Relation) -> None:
        """Wait no longer for a metastore that does not say whether it was pointed there; a sync will see where it is.

        Nothing is lost by it: what was published is known, wherever the metastore turns out to point.
        """
        with self.database.writing() as uow:
            stored, now_ns = uow.grounds.of(relation.id), time.time_ns()
            grounds = {name: Ground.from_json(one) for name, one in stored.items()}
            up = {name: one.given_up(now_ns).to_json() for name, one in grounds.items() if one.publishing is not None}
            uow.grounds.put(relation.id, up)

    def overtaken(self, relation: Relation, grounds: Mapping[str, Ground]) -> set[str]:
        """Those partitions that Hive has changed since, which no sync has taken over; Unavailable without metastore."""
        metastore, names = self.index.metastore(relation.catalog), split_name(relation.hive_name or "")
        now = {unit.name: unit.signals for unit in read_some(metastore, *names, [*grounds]).units}
        return self._overtaken(grounds, now)

    def _some(self, relation: Relation, link: Mapping[str, Any], grounds: Mapping[str, Ground]) -> Switched:
        metastore = self.index.metastore(relation.catalog)
        state = read_some(metastore, *split_name(relation.hive_name or ""), [*grounds])
        if why_unfit(link, state.table) or self.owners.other(state.table, relation.id):
            # Made anew, perhaps: none of it is where it was. Or another publishes to it.
            given_up = {name: ground.given_up(time.time_ns()) for name, ground in grounds.items()}
            self._note(relation.id, grounds, given_up)
            return Switched(given_up=len(given_up))
        now = {unit.name: unit.signals for unit in state.units}
        ended = dict(self._ended(metastore, state, grounds, now))
        self._note(relation.id, grounds, ended)
        switched = sum(_is_switched(one, grounds[name]) for name, one in ended.items())
        return Switched(done=switched, given_up=len(ended) - switched, left=len(grounds) - len(ended))

    def _ended(
        self, metastore: Metastore, state: HiveState, grounds: Mapping[str, Ground], now: Mapping[str, Signals]
    ) -> Iterator[tuple[str, Ground]]:
        overtaken = self._overtaken(grounds, now)
        for name, ground in grounds.items():
            signals = now.get(name)
            if signals is not None and ground.publishing and _is_at(signals, ground.publishing):
                yield name, ground.switched(signals, time.time_ns())
            elif name in overtaken:
                yield name, ground.given_up(time.time_ns())
            else:
                ended = self._moved(metastore, state.table, name, ground)
                if ended is not None:
                    yield name, ended

    def _overtaken(self, grounds: Mapping[str, Ground], now: Mapping[str, Signals]) -> set[str]:
        """Partitions that Hive has dropped, made, moved or written to since the publish began.

        An addition could be heard after the switch, too, but Hive's readers would lose sight of it until then.
        """
        # There though it was not to be, or not there though it was.
        found = {name for name, ground in grounds.items() if ground.is_dropped == (name in now)}
        found |= {name for name, one in now.items() if name not in found and one.location != grounds[name].location}
        listed = [name for name in grounds if name not in found and name in now]
        for name, listing in zip(listed, self.files.listings([grounds[name].location for name in listed]), strict=True):
            there = {file.path: file for file in listing.files}
            known = {file.path: file for file in grounds[name].files}
            if there.keys() != known.keys() or not all(known[path].same_as(file) for path, file in there.items()):
                found.add(name)
        return found

    def _moved(self, metastore: Metastore, table: HiveTable, name: str, ground: Ground) -> Ground | None:
        """The ground once the metastore was pointed there, or refused; None when nobody knows."""
        to = ground.publishing
        assert to is not None  # it is among those that are open
        values = partition_values(table.partition_columns, name) if table.partition_columns else ()
        place = Place(values=values, location=None if ground.is_dropped else ground.location)
        try:
            signals = metastore.move(
                table.database, table.name, place, to.location, _parameters(to), columns_of_table=True
            )
        except (CommitUnknown, Unavailable) as error:
            log.warning("%s: %s", table.full_name, error)
            return None
        except CatalogError as error:  # it says that it has not moved: changed meanwhile, gone, or not allowed
            log.warning("%s: not published: %s", table.full_name, error)
            return ground.given_up(time.time_ns())
        return ground.switched(signals, time.time_ns())

    def _note(self, relation_id: RelationId, before: Mapping[str, Ground], ended: Mapping[str, Ground]) -> None:
        """Write what has ended, unless somebody else has written it meanwhile."""
        if not ended:
            return
        with self.database.writing() as uow:
            found = uow.grounds.link(relation_id)
            if found is None:
                return
            stored = uow.grounds.of(relation_id)
            current = {name: Ground.from_json(one) for name, one in stored.items()}
            mine = {name: one for name, one in ended.items() if current.get(name) == before[name]}
            uow.grounds.put(relation_id, {name: one.to_json() for name, one in mine.items()})
            link, synced_at = found
            through = given((current | mine).values(), link["given"])
            uow.grounds.put_link(relation_id, {**link, "given": through}, synced_at)


def _is_switched(ground: Ground, before: Ground) -> bool:
    return before.publishing is not None and ground.files == before.publishing.files and not ground.is_dropped


def _is_at(signals: Signals, directory: Directory) -> bool:
    return canonical(signals.location) == canonical(directory.location)


def _parameters(directory: Directory) -> dict[str, str | None]:
    """What the metastore is to say of a partition's files."""
    counted: dict[str, str | None] = {
        "numFiles": str(len(directory.files)),
        "totalSize": str(sum(file.size for file in directory.files)),
        "numRows": None if directory.rows is None else str(directory.rows),
        "transient_lastDdlTime": str(time.time_ns() // 10**9),
    }
    return counted | dict.fromkeys(UNCOUNTED)
