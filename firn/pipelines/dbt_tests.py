"""Tests of dbt as validators of tables."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from firn.pipelines.dbt_manifest import Manifest, Node
from firn.pipelines.imported import Import
from firn.protocol.validators import MOST_VALUES

_LIMITS: Final = ("where", "limit")


def add_tests(
    manifest: Manifest,
    result: Import,
    tables: Mapping[str, str],
    inputs: Mapping[str, Collection[str]],
    name_of: Callable[[str], str],
) -> None:
    """Add the tests to the settings of `tables`, which are names by id. `inputs` are the names that each reads.

    What cannot be a validator is reported.
    """
    for test in manifest.list_nodes("test"):
        name = test.text("name") or test.id
        table = tables.get(test.text("attached_node"))
        if table is None:
            result.miss(name, _explain_detached(test))
            continue
        validator = _map_test(test, result.tables[table], inputs[test.text("attached_node")], name_of)
        if isinstance(validator, str):
            result.miss(name, validator)
        elif validator is not None:
            severity = {"severity": "warn"} if str(test.config.get("severity")).lower() == "warn" else {}
            result.tables[table].setdefault("validate", []).append({**validator, **severity})


def find_key(manifest: Manifest, model: str) -> list[str]:
    """The column that tests of the model say to be unique and not null, if there is one such column."""
    columns: dict[str, set[str]] = {}
    for test in manifest.list_nodes("test"):
        if test.text("attached_node") == model and _is_strict(test):
            column, kind = _read_column(test), test.section("test_metadata").get("name")
            columns.setdefault(column, set()).add(str(kind))
    keys = [column for column, kinds in columns.items() if column and {"unique", "not_null"} <= kinds]
    return keys if len(keys) == 1 else []


def _is_strict(test: Node) -> bool:
    """Whether it is a test of dbt's own, of all rows, that fails the build."""
    is_warning = str(test.config.get("severity")).lower() == "warn"
    is_own = test.section("test_metadata").get("namespace") in (None, "dbt")
    return is_own and not is_warning and not any(test.config.get(name) for name in _LIMITS)


def _read_column(test: Node) -> str:
    """The column that it tests, in lower case; empty if it names none."""
    column = Node("", test.section("test_metadata")).section("kwargs").get("column_name")
    return column.strip('`"').lower() if isinstance(column, str) else ""


def _explain_detached(test: Node) -> str:
    if not test.section("test_metadata"):
        return "a test of your own: write it as a validator with sql"
    return "a test of a view or an input: give it to the tables that read the rows"


def _map_test(
    test: Node, settings: dict[str, Any], inputs: Collection[str], name_of: Callable[[str], str]
) -> dict[str, Any] | str | None:
    """The validator; a text that says why there is none; None if the key of the table says the same."""
    about = test.section("test_metadata")
    kind, column = about.get("name"), _read_column(test)
    if about.get("namespace") not in (None, "dbt") or not column:
        return "a test of your own: write it as a validator with sql or condition"
    if any(test.config.get(name) for name in _LIMITS):
        return "a test with where or limit: write it as a condition"
    return _map_kind(test, str(kind)[:80], column, settings, inputs, name_of)


def _map_kind(
    test: Node,
    kind: str,
    column: str,
    settings: dict[str, Any],
    inputs: Collection[str],
    name_of: Callable[[str], str],
) -> dict[str, Any] | str | None:
    kwargs = Node("", test.section("test_metadata")).section("kwargs")
    if kind == "not_null":
        return {"not_null": [column]}
    if kind == "unique":
        if settings.get("key") == [column]:
            return None
        return {"unique": [column]} if settings.get("key") else f"unique({column}) needs a table with a key: name one"
    if kind == "accepted_values":
        values = kwargs.get("values")
        if isinstance(values, list) and 0 < len(values) <= MOST_VALUES:
            return {"accepted": {"column": column, "values": [str(value) for value in values]}}
        return "accepted_values without values, or with too many"
    if kind == "relationships":
        return _map_relationship(test, column, kwargs, inputs, name_of)
    return f"the test {kind} has no counterpart: write it as a validator with sql or condition"


def _map_relationship(
    test: Node, column: str, kwargs: Mapping[str, Any], inputs: Collection[str], name_of: Callable[[str], str]
) -> dict[str, Any] | str:
    nodes = test.section("depends_on").get("nodes")
    others = [key for key in nodes if key != test.text("attached_node")] if isinstance(nodes, list) else []
    name = name_of(str(others[0])) if others else ""
    if name not in inputs:
        return f"relationships to {name or 'another table'}: its query does not read that table"
    field = kwargs.get("field")
    return {"references": {"column": column, "in": name, "in_column": str(field or column).strip('`"').lower()}}
