"""What a new version of a pipeline does to its tables, and which versions the server refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from catalog.errors import InvalidDefinition, StaleDefinition
from catalog.names import TableName, fold_case
from catalog.pipelines.lineage import find_foreign_source
from firn.protocol.pipeline_outputs import OnChange, explain_wrong_output
from firn.protocol.pipeline_sets import explain_wrong_sets
from firn.protocol.pipelines import DefinitionChange, TableChange, TableDefinition

_PLACE = frozenset({"path", "line"})
_VERDICT = frozenset({"incremental", "scope", "reasons", "terms", "prunes", "lineage", "extends"})


def parse_definitions(definitions: Sequence[TableDefinition]) -> dict[TableName, TableDefinition]:
    """The definitions by name. InvalidDefinition for a name that cannot be one, and for one that comes twice."""
    parsed: dict[TableName, TableDefinition] = {}
    spelled: dict[str, TableDefinition] = {}
    for definition in definitions:
        name = TableName.parse(definition.name)
        other = spelled.setdefault(fold_case(str(name)), definition)
        if other is not definition:
            raise InvalidDefinition(
                f"{name} is defined twice: in {_place(other)} and in {_place(definition)}", hint="remove one of them"
            )
        if len(set(definition.key)) < len(definition.key):
            raise InvalidDefinition(f"the key of {name} names a column twice ({_place(definition)})")
        _check_output(definition)
        source = find_foreign_source(definition)
        if source is not None:
            raise InvalidDefinition(f"the lineage of {name} names {source.table}, which is no input of it")
        parsed[name] = definition
    _check_sets(parsed)
    return parsed


def _check_sets(definitions: Mapping[TableName, TableDefinition]) -> None:
    """Raise InvalidDefinition for sets that cannot be, or that their tables do not agree on."""
    sets = dict[tuple[str, ...], None]()
    for name, definition in definitions.items():
        members = parse_set(definition)
        if members and name not in members:
            raise InvalidDefinition(f"{name} is not in the set that it names ({_place(definition)})")
        for member in members:
            if member in definitions and parse_set(definitions[member]) != members:
                raise InvalidDefinition(f"{name} and {member} name two sets ({_place(definition)})")
        if members:
            sets[tuple(map(str, members))] = None
    inputs = {str(name): list(map(str, parse_inputs(definition))) for name, definition in definitions.items()}
    wrong = explain_wrong_sets(list(sets), inputs)
    if wrong is not None:
        raise InvalidDefinition(wrong[0], hint=wrong[1])


def parse_set(definition: TableDefinition) -> list[TableName]:
    """The tables that move together with this one, which is among them; empty for a table that moves alone."""
    return [TableName.parse(name) for name in definition.consistent]


def _check_output(definition: TableDefinition) -> None:
    wrong = explain_wrong_output(
        definition.output_mode,
        key=definition.key,
        columns=definition.columns,
        streams=[stream.table for stream in definition.streams],
        inputs=definition.inputs,
    )
    if wrong is not None:
        raise InvalidDefinition(f"{definition.name}: {wrong[0]} ({_place(definition)})", hint=wrong[1])


def parse_inputs(definition: TableDefinition) -> list[TableName]:
    """The inputs of a definition, each once."""
    return list(dict.fromkeys(TableName.parse(name) for name in definition.inputs))


def compare_versions(
    before: Mapping[TableName, TableDefinition],
    after: Mapping[TableName, TableDefinition],
    built: Mapping[TableName, str],
) -> list[TableChange]:
    """What the definitions `after` do to each table; `built` are the fingerprints of the rows that tables have."""
    changes = [
        TableChange(table=str(name), change=_compare(before.get(name), definition, built.get(name)))
        for name, definition in after.items()
    ]
    removed = [name for name in before if name not in after]
    return [*changes, *(TableChange(table=str(name), change=DefinitionChange.REMOVED) for name in removed)]


def _compare(before: TableDefinition | None, after: TableDefinition, built: str | None) -> DefinitionChange:
    if before is None:
        return DefinitionChange.NEW
    if built is not None and after.fingerprint != built:
        return DefinitionChange.COLUMNS if after.extends == built else DefinitionChange.REBUILD
    if _settings(before) == _settings(after):
        return DefinitionChange.UNCHANGED
    return DefinitionChange.SETTINGS if built is not None else DefinitionChange.NEW


def _settings(definition: TableDefinition) -> dict[str, object]:
    return definition.model_dump(exclude={*_PLACE, *_VERDICT})


def check_rebuilds(
    before: Mapping[TableName, TableDefinition],
    after: Mapping[TableName, TableDefinition],
    built: Mapping[TableName, str],
) -> None:
    """Raise StaleDefinition for changed queries of built tables that no earlier version has brought."""
    changed = [
        definition
        for name, definition in after.items()
        if name in built
        and definition.on_change is OnChange.ASK
        and definition.fingerprint != built[name]
        and definition.extends != built[name]
        and (name not in before or definition.fingerprint != before[name].fingerprint)
    ]
    if changed:
        names = ", ".join(f"{definition.name} ({_place(definition)})" for definition in changed)
        raise StaleDefinition(
            f"the query of {names} has changed, so that its rows may differ",
            hint="accept with `rebuild` that the next run computes all rows: `firn pipeline put --rebuild`",
        )


def check_keys(
    before: Mapping[TableName, TableDefinition],
    after: Mapping[TableName, TableDefinition],
    built: Mapping[TableName, str],
) -> None:
    """Raise StaleDefinition for another key of a built table, because the key of a table never changes."""
    for name, definition in after.items():
        if name in built and name in before and before[name].key != definition.key:
            raise StaleDefinition(
                f"{name} has the key ({', '.join(before[name].key)}), which cannot change ({_place(definition)})",
                hint="drop the table first; the next run creates it again",
            )


def _place(definition: TableDefinition) -> str:
    return f"{definition.path}, line {definition.line}"
