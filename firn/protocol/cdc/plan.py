"""The plan of `firn cdc`: which table takes which tables of the source, and what is to be created or added."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Protocol

from firn.protocol.cdc.observation import Observation, SourceFacts
from firn.protocol.cdc.routing import CdcConfig, TableRule
from firn.protocol.names import InvalidName, split_name


class ExistingColumn(Protocol):
    """A column of a table of the lake."""

    @property
    def name(self) -> str: ...


class ExistingTable(Protocol):
    """What the plan needs to know about a table of the lake."""

    @property
    def properties(self) -> Mapping[str, str]: ...
    @property
    def primary_key(self) -> Sequence[str]: ...
    @property
    def columns(self) -> Sequence[ExistingColumn]: ...


LoadTable = Callable[[str], ExistingTable | None]
"""Loads a table by its name; None if there is none, and InvalidName if no table can have the name."""
_RESERVED = ("_op", "_set", "_source")
_SHORTEST_NAME = 2


class _Refused(ValueError):
    """The table cannot be made; the message says why, and what to do."""


class Action(StrEnum):
    """What a run does with a table before it brings rows."""

    CREATE = "create"
    CHANGE = "change"
    NONE = "none"
    STOP = "stop"  # a problem that a user has to solve


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlan:
    """One table of the lake."""

    table: str
    topic: str
    sources: Sequence[str]
    action: Action
    primary_key: Sequence[str] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    """All columns of a new table, and the missing ones of a table that exists."""
    new_sources: Sequence[str] = ()
    """The tables of the source that the table does not take yet."""
    problem: str | None = None
    lacks_values: bool = False
    """Whether updates leave out values, so that the table needs `firn.partial`."""
    rule: TableRule
    """How the table is made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPlan:
    """One topic: its tables, the tables of the source that no rule takes, and records that are bad."""

    topic: str
    tables: Sequence[TablePlan]
    left_out: Sequence[str]
    bad: Mapping[str, int]
    records: int
    problem: str | None = None
    """Why a run brings none of the records, although they are planned."""


def plan_topic(config: CdcConfig, topic: str, observation: Observation, load: LoadTable) -> TopicPlan:
    """Plan one topic by what its records show."""
    groups: dict[str, tuple[TableRule, list[str]]] = {}
    left_out = []
    for source in sorted(observation.tables):
        routed = config.route(source)
        if routed is None:
            left_out.append(source)
            continue
        rule, table = routed
        groups.setdefault(table, (rule, []))[1].append(source)
    tables = [
        _plan_table(config, topic, table, rule, {source: observation.tables[source] for source in sources}, load)
        for table, (rule, sources) in sorted(groups.items())
    ]
    return TopicPlan(
        topic=topic, tables=tables, left_out=left_out, bad=dict(observation.bad), records=observation.records
    )


def refuse_shared_tables(plans: Sequence[TopicPlan]) -> list[TopicPlan]:
    """The plans, in which a new table that several topics would share is a problem: one table takes one topic."""
    topics: dict[str, list[str]] = {}
    for plan in plans:
        for table in plan.tables:
            topics.setdefault(table.table, []).append(plan.topic)
    return [
        replace(plan, tables=[_refuse_shared(table, topics[table.table]) for table in plan.tables]) for plan in plans
    ]


def _refuse_shared(table: TablePlan, topics: Sequence[str]) -> TablePlan:
    if len(topics) == 1 or table.action is not Action.CREATE:
        return table
    problem = f"{', '.join(topics)} would share the table, and one table takes one topic"
    return replace(table, action=Action.STOP, problem=problem)


def _plan_table(
    config: CdcConfig, topic: str, table: str, rule: TableRule, facts: Mapping[str, SourceFacts], load: LoadTable
) -> TablePlan:
    merged = SourceFacts()
    for source in facts.values():
        merged.merge(source)
    try:
        _check_name(table, list(facts))
        loaded = load(table)
        if loaded is None:
            plan = _plan_new(topic, table, rule, merged, list(facts))
        else:
            plan = _plan_existing(config, topic, rule, merged, list(facts), loaded, table)
        return replace(plan, lacks_values=merged.lacks_values)
    except (_Refused, InvalidName) as error:
        return TablePlan(
            table=table, topic=topic, sources=list(facts), action=Action.STOP, problem=str(error), rule=rule
        )


def _check_name(table: str, sources: Sequence[str]) -> None:
    """Raise _Refused if a rule gives a name that no table can have."""
    try:
        parts = split_name(table)
    except InvalidName:
        parts = ()
    if len(parts) < _SHORTEST_NAME:
        raise _Refused(f"{', '.join(sources)} would go to {table!r}, which is no NAMESPACE.TABLE")


def _plan_new(topic: str, table: str, rule: TableRule, facts: SourceFacts, sources: Sequence[str]) -> TablePlan:
    key = list(rule.primary_key or facts.keys)
    if not key:
        raise _Refused(f"the records of {', '.join(sources)} name no key: give the rule a primary_key")
    if len(sources) > 1 and rule.source_column is None:
        raise _Refused(f"{', '.join(sources)} share the table, so equal keys would meet: give the rule a source_column")
    columns = {**facts.types, **rule.columns}
    if rule.source_column is not None:
        columns[rule.source_column] = "string"
        key = [*key, *([] if rule.source_column in key else [rule.source_column])]
    _check_columns(columns, key, rule)
    ordered = {name: columns[name] for name in (*key, *(name for name in columns if name not in key))}
    return TablePlan(
        table=table,
        topic=topic,
        sources=sources,
        action=Action.CREATE,
        primary_key=key,
        columns=ordered,
        new_sources=sources,
        rule=rule,
    )


def _check_columns(columns: Mapping[str, str], key: Sequence[str], rule: TableRule) -> None:
    missing = [name for name in (*key, *filter(None, [rule.sequence_field])) if name not in columns]
    if missing:
        raise _Refused(f"the records have no column {', '.join(missing)}")
    reserved = [name for name in columns if name.casefold() in _RESERVED]
    if reserved:
        raise _Refused(f"{', '.join(reserved)} is a name of Firn's own columns: rename it at the source")
    folded: dict[str, str] = {}
    for name in columns:
        other = folded.setdefault(name.casefold(), name)
        if other != name:
            raise _Refused(f"columns {other} and {name} differ in case only")


def _plan_existing(
    config: CdcConfig,
    topic: str,
    rule: TableRule,
    facts: SourceFacts,
    sources: Sequence[str],
    loaded: ExistingTable,
    table: str,
) -> TablePlan:
    properties = loaded.properties
    if properties.get("firn.log.topic") != topic:
        other = properties.get("firn.log.topic")
        reason = "has no log" if other is None else f"takes topic {other}"
        raise _Refused(f"{table} {reason}: one table takes one topic, so choose another name, or drop the table")
    if properties.get("firn.log.format") != config.format:
        raise _Refused(f"{table} reads {properties.get('firn.log.format')}, and the file says {config.format}")
    known_text = properties.get("firn.log.source-tables")
    known = [] if known_text is None else [name.strip() for name in known_text.split(",")]
    new = [source for source in sources if known and source not in known]
    if new and properties.get("firn.log.source-column") is None:
        raise _Refused(
            f"{', '.join(new)} would share {table} with {', '.join(known)}: a source_column tells them apart"
        )
    missing = _find_missing(facts, rule, loaded) if config.schema == "add" else {}
    return TablePlan(
        table=table,
        topic=topic,
        sources=[*known, *new] if known else sources,
        action=Action.CHANGE if missing or new else Action.NONE,
        primary_key=loaded.primary_key,
        columns=missing,
        new_sources=new,
        rule=rule,
    )


def _find_missing(facts: SourceFacts, rule: TableRule, loaded: ExistingTable) -> dict[str, str]:
    known = {column.name.casefold() for column in loaded.columns}
    missing = {name: type_ for name, type_ in facts.types.items() if name.casefold() not in known}
    _check_columns({**dict.fromkeys(loaded.primary_key, ""), **missing}, (), rule=rule)
    return {name: rule.columns.get(name, type_) for name, type_ in missing.items()}
