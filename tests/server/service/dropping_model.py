"""Random histories of creates, drops, undrops, renames and purges against a plain model: names, ids and files."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from uuid import UUID

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from catalog.errors import AlreadyExists, Conflict, NoSuchTable
from catalog.names import TableName
from catalog.ports.store import Database
from catalog.tables.relation import RelationKind
from firn.protocol.dropped import DroppedState
from tests.factories import LAKE
from tests.server.lake import Lake, a_lake
from tests.server.service.dropping import age, append_files, files_below, listed, path_of, purge_all

NAMES = st.sampled_from([TableName((space,), name) for space in ("db", "other") for name in ("a", "b")])


@dataclass
class Known:
    """What the model knows of one table that was ever made."""

    id: UUID
    location: str
    rows: set[Path] = field(default_factory=set)
    purge: bool = False


class DroppingHistory(RuleBasedStateMachine):
    """Live tables by name, dropped ones by id; the files of both are whole, and those of purged ones are gone."""

    def __init__(self, database: Database, directory: Path) -> None:
        super().__init__()
        self.lake: Lake = a_lake(database, directory)
        self.lake.services.namespaces.ensure(LAKE, ("other",))
        self.live: dict[TableName, Known] = {}
        self.dropped: dict[UUID, tuple[TableName, Known]] = {}
        self.purged: list[Known] = []
        self.forgotten: list[Known] = []

    @rule(name=NAMES)
    def create(self, name: TableName) -> None:
        try:
            self.lake.services.namespaces.ensure(LAKE, name.namespace)
            self.lake.create(name)
        except AlreadyExists:
            assert name in self.live
            return
        assert name not in self.live
        with self.lake.services.database.reading() as uow:
            relation = uow.relations.find(LAKE, name)
        assert relation is not None
        self.live[name] = Known(relation.id, relation.location)

    @rule(name=NAMES)
    def write(self, name: TableName) -> None:
        if name in self.live:
            self.live[name].rows.update(append_files(self.lake, name, files=1))

    @rule(name=NAMES, purge=st.booleans())
    def drop(self, name: TableName, purge: bool) -> None:  # noqa: FBT001 (drawn)
        try:
            entry = self.lake.services.drop(LAKE, name, purge=purge)
        except NoSuchTable:
            assert name not in self.live
            return
        known = self.live.pop(name)
        assert entry.id == known.id
        known.purge = purge
        self.dropped[entry.id] = (name, known)

    @rule(name=NAMES, to=NAMES)
    def rename(self, name: TableName, to: TableName) -> None:
        try:
            self.lake.services.namespaces.ensure(LAKE, to.namespace)
            self.lake.services.tables.rename(LAKE, name, to)
        except NoSuchTable:
            assert name not in self.live
        except AlreadyExists:
            assert to in self.live
        else:
            self.live[to] = self.live.pop(name)

    @precondition(lambda self: self.dropped)
    @rule(data=st.data(), to=st.none() | NAMES)
    def undrop(self, data: st.DataObject, to: TableName | None) -> None:
        entry_id = data.draw(st.sampled_from(sorted(self.dropped)))
        name, known = self.dropped[entry_id]
        wanted = to or name
        try:
            self.lake.services.undrops.undrop(LAKE, entry_id, to=to)
        except AlreadyExists:
            assert wanted in self.live
            return
        assert wanted not in self.live
        self.live[wanted] = known
        del self.dropped[entry_id]

    @precondition(lambda self: self.dropped)
    @rule(data=st.data(), by_request=st.booleans())
    def end(self, data: st.DataObject, by_request: bool) -> None:  # noqa: FBT001 (drawn)
        """By a person, or because its time is over."""
        entry_id = data.draw(st.sampled_from(sorted(self.dropped)))
        _, known = self.dropped.pop(entry_id)
        if by_request:
            self.lake.services.purges.purge(LAKE, entry_id)
        else:
            age(self.lake, entry_id)
        purge_all(self.lake)
        (self.purged if by_request or known.purge else self.forgotten).append(known)

    @rule(space=st.sampled_from(["db", "other"]))
    def drop_namespace(self, space: str) -> None:
        if not self.lake.services.namespaces.exists(LAKE, (space,)):
            return
        done = self.lake.services.recursive_drops.drop(LAKE, (space,))
        gone = {name for name in self.live if name.namespace == (space,)}
        assert {relation.id for relation in done.dropped} == {self.live[name].id for name in gone}
        for name in gone:
            known = self.live.pop(name)
            known.purge = False
            self.dropped[known.id] = (name, known)

    @rule(data=st.data())
    def undrop_namespace(self, data: st.DataObject) -> None:
        spaces = [entry for entry in listed(self.lake) if entry.kind == "namespace"]
        if not spaces:
            return
        entry = data.draw(st.sampled_from(spaces))
        with self.lake.services.database.reading() as uow:
            members = [member.id for member in uow.dropped.within(entry.id)]
        names = [self.dropped[member][0] for member in members]
        try:
            self.lake.services.undrops.undrop(LAKE, entry.id)
        except (AlreadyExists, Conflict):
            assert any(name in self.live for name in names)
            return
        for member in members:
            name, known = self.dropped.pop(member)
            self.live[name] = known

    @invariant()
    def the_catalog_holds_what_is_live(self) -> None:
        with self.lake.services.database.reading() as uow:
            relations = uow.relations.list(LAKE, None, [RelationKind.TABLE], limit=100).items
        assert {relation.name: relation.id for relation in relations} == {
            name: known.id for name, known in self.live.items()
        }

    @invariant()
    def the_list_holds_what_was_dropped(self) -> None:
        entries = [entry for entry in listed(self.lake) if entry.kind != "namespace"]
        assert {entry.id: entry.table_name for entry in entries} == {
            entry_id: name for entry_id, (name, _) in self.dropped.items()
        }
        assert all(entry.state is DroppedState.DROPPED for entry in entries)

    @invariant()
    def files_are_whole_or_gone(self) -> None:
        for known in (
            *self.live.values(),
            *(known_relation for _, known_relation in self.dropped.values()),
            *self.forgotten,
        ):
            assert known.rows <= files_below(known.location)
        for known in self.purged:
            assert not path_of(known.location).exists() or not files_below(known.location)
