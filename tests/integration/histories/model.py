"""The catalog as a plain value: what each request does to it and is answered, one after another."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

T = TypeVar("T")
NAMESPACES = ("a", "b")
NAMES = ("t", "u")


class Name(NamedTuple):
    """A table or view of one of the namespaces."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Table:
    """One table: its snapshots in their order, its property `k`, and which table it is."""

    identity: int
    snapshots: tuple[int, ...] = ()
    k: str | None = None

    @property
    def head(self) -> int | None:
        return self.snapshots[-1] if self.snapshots else None


@dataclass(frozen=True, slots=True)
class View:
    """One view: its property `k`, and which view it is."""

    identity: int
    k: str | None = None


@dataclass(frozen=True, slots=True)
class State:
    """All that clients see, and what was dropped, oldest first."""

    namespaces: frozenset[str] = frozenset()
    tables: dict[Name, Table] = field(default_factory=dict)
    views: dict[Name, View] = field(default_factory=dict)
    dropped: tuple[tuple[Name, Table | View], ...] = ()

    def has_relation(self, name: Name) -> bool:
        return name in self.tables or name in self.views


class Answer(NamedTuple):
    """The status of an answer and the state after it."""

    status: int
    state: State


# --- requests --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MakeNamespace:
    name: str


@dataclass(frozen=True, slots=True)
class DropNamespace:
    name: str


@dataclass(frozen=True, slots=True)
class CreateTable:
    name: Name
    identity: int


@dataclass(frozen=True, slots=True)
class CreateView:
    name: Name
    identity: int


@dataclass(frozen=True, slots=True)
class DropTable:
    name: Name


@dataclass(frozen=True, slots=True)
class DropView:
    name: Name


@dataclass(frozen=True, slots=True)
class RenameTable:
    source: Name
    to: Name


@dataclass(frozen=True, slots=True)
class RenameView:
    source: Name
    to: Name


@dataclass(frozen=True, slots=True)
class Append:
    """Over the table as its writer has read it: `identity` and `parent` are what it requires."""

    name: Name
    identity: int
    parent: int | None
    snapshot: int


@dataclass(frozen=True, slots=True)
class SetProperty:
    name: Name
    value: str


@dataclass(frozen=True, slots=True)
class SetViewProperty:
    name: Name
    value: str


@dataclass(frozen=True, slots=True)
class Together:
    """Appends to several tables, all or none."""

    appends: tuple[Append, ...]


@dataclass(frozen=True, slots=True)
class Undrop:
    """What was dropped under this identity, back under its name."""

    identity: int


Request = (
    MakeNamespace
    | DropNamespace
    | CreateTable
    | CreateView
    | DropTable
    | DropView
    | RenameTable
    | RenameView
    | Append
    | SetProperty
    | SetViewProperty
    | Together
    | Undrop
)

OK, NO_CONTENT, NOT_FOUND, CONFLICT = 200, 204, 404, 409


def answered(state: State, request: Request) -> Answer:  # noqa: C901, PLR0911 (one case for each request)
    """What the request does, alone."""
    match request:
        case MakeNamespace() | DropNamespace():
            return _changed_namespaces(state, request)
        case CreateTable() | CreateView():
            return _created(state, request)
        case DropTable() | DropView():
            return _dropped(state, request)
        case RenameTable(source, to) | RenameView(source, to):
            return _renamed(state, request, source, to)
        case Append():
            return _appended(state, (request,), OK)
        case Together(appends):
            return _appended(state, appends, NO_CONTENT)
        case SetProperty(name, value):
            if name not in state.tables:
                return Answer(NOT_FOUND, state)
            return Answer(OK, replace(state, tables=state.tables | {name: replace(state.tables[name], k=value)}))
        case SetViewProperty(name, value):
            if name not in state.views:
                return Answer(NOT_FOUND, state)
            return Answer(OK, replace(state, views=state.views | {name: replace(state.views[name], k=value)}))
        case Undrop(identity):
            return _undropped(state, identity)


def _changed_namespaces(state: State, request: MakeNamespace | DropNamespace) -> Answer:
    name, there = request.name, request.name in state.namespaces
    if isinstance(request, MakeNamespace):
        return Answer(CONFLICT, state) if there else Answer(OK, replace(state, namespaces=state.namespaces | {name}))
    if not there:
        return Answer(NOT_FOUND, state)
    if any(relation.namespace == name for relation in (*state.tables, *state.views)):
        return Answer(CONFLICT, state)
    return Answer(NO_CONTENT, replace(state, namespaces=state.namespaces - {name}))


def _created(state: State, request: CreateTable | CreateView) -> Answer:
    name, identity = request.name, request.identity
    if name.namespace not in state.namespaces:
        return Answer(NOT_FOUND, state)
    if state.has_relation(name):
        return Answer(CONFLICT, state)
    if isinstance(request, CreateTable):
        return Answer(OK, replace(state, tables=state.tables | {name: Table(identity)}))
    return Answer(OK, replace(state, views=state.views | {name: View(identity)}))


def _dropped(state: State, request: DropTable | DropView) -> Answer:
    name = request.name
    if isinstance(request, DropTable):
        if name not in state.tables:
            return Answer(NOT_FOUND, state)
        left = replace(state, tables=_without(state.tables, name))
        return Answer(NO_CONTENT, replace(left, dropped=(*state.dropped, (name, state.tables[name]))))
    if name not in state.views:
        return Answer(NOT_FOUND, state)
    left = replace(state, views=_without(state.views, name))
    return Answer(NO_CONTENT, replace(left, dropped=(*state.dropped, (name, state.views[name]))))


def _without(relations: dict[Name, T], name: Name) -> dict[Name, T]:
    return {key: value for key, value in relations.items() if key != name}


def _renamed(state: State, request: RenameTable | RenameView, source: Name, to: Name) -> Answer:
    tables = isinstance(request, RenameTable)
    if source not in (state.tables if tables else state.views) or to.namespace not in state.namespaces:
        return Answer(NOT_FOUND, state)
    if state.has_relation(to):
        return Answer(CONFLICT, state)
    if tables:
        renamed = _without(state.tables, source) | {to: state.tables[source]}
        return Answer(NO_CONTENT, replace(state, tables=renamed))
    return Answer(NO_CONTENT, replace(state, views=_without(state.views, source) | {to: state.views[source]}))


def _appended(state: State, appends: tuple[Append, ...], good: int) -> Answer:
    if any(append.name not in state.tables for append in appends):
        return Answer(NOT_FOUND, state)
    tables = dict(state.tables)
    for append in appends:
        table = tables[append.name]
        if table.identity != append.identity or table.head != append.parent:
            return Answer(CONFLICT, state)
        tables[append.name] = replace(table, snapshots=(*table.snapshots, append.snapshot))
    return Answer(good, replace(state, tables=tables))


def _undropped(state: State, identity: int) -> Answer:
    live = {table.identity for table in state.tables.values()} | {view.identity for view in state.views.values()}
    if identity in live:
        return Answer(OK, state)  # it is back already
    entry = next((dropped for dropped in state.dropped if dropped[1].identity == identity), None)
    if entry is None:
        return Answer(NOT_FOUND, state)
    name, relation = entry
    if state.has_relation(name):
        return Answer(CONFLICT, state)
    rest = tuple(dropped for dropped in state.dropped if dropped is not entry)
    back = replace(state, dropped=rest, namespaces=state.namespaces | {name.namespace})
    if isinstance(relation, Table):
        return Answer(OK, replace(back, tables=state.tables | {name: relation}))
    return Answer(OK, replace(back, views=state.views | {name: relation}))
