"""`firn pipeline init NAME --from dbt DIR`: models become views and tables, tests become validators.

Firn reads only the manifest, and runs nothing. What has no counterpart is in the report.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from firn.errors import FirnError
from firn.pipelines.dbt_manifest import Manifest, Node, read_manifest
from firn.pipelines.dbt_tests import add_tests, find_key
from firn.pipelines.errors import InvalidDefinition
from firn.pipelines.imported import DIALECT as WRITTEN
from firn.pipelines.imported import Import, write_query
from firn.pipelines.parsing import DIALECT, check_size, parse_query
from firn.pipelines.tables import find_tables
from firn.protocol.names import join_name, quote_name

_TABLES: Final = ("table", "incremental", "materialized_view")
_DIALECTS: Final = {"athena": "trino", "fabric": "tsql", "sqlserver": "tsql"}
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_MINUTES: Final = {"minute": 1, "hour": 60, "day": 1_440}


def import_dbt(folder: Path, catalog: str = "lake") -> Import:
    """The folder of a dbt project that was compiled. Raises Invalid for what is no manifest."""
    manifest = read_manifest(folder)
    result = Import(re.sub(r"\W+", "_", manifest.project)[:100] or "imported", catalog)
    _Importer(manifest, result).run()
    return result


class _Importer:
    def __init__(self, manifest: Manifest, result: Import) -> None:
        self.manifest = manifest
        self.result = result
        self.nodes = {node.id: node for node in (*manifest.nodes, *manifest.sources)}
        self.models = {node.id: node for node in manifest.list_nodes("model") if self._is_taken(node)}
        self.queries: dict[str, exp.Query] = {}
        self.views: dict[str, str] = {}
        self.relations: dict[tuple[str, ...], str] = {}

    def run(self) -> None:
        schemas = Counter(node.text("schema") for node in self.models.values() if node.text("schema"))
        self.result.namespace = schemas.most_common(1)[0][0] if schemas else None
        self._choose_views()
        for node in (*self.models.values(), *self.manifest.list_nodes("seed", "snapshot"), *self.manifest.sources):
            self.relations.setdefault(node.relation(), node.id)
        for node in self.models.values():
            self._add_model(node)
        self._report_others()
        inputs = {key: self._find_inputs(key) for key in self.queries if key not in self.views}
        for key, read in inputs.items():
            self._add_settings(self.models[key], read)
        add_tests(self.manifest, self.result, {key: self._table_name(self.models[key]) for key in inputs}, {
            key: {self._name_of(other) for other in read} for key, read in inputs.items()
        }, self._name_of)  # fmt: skip
        self.result.tables = {name: settings for name, settings in self.result.tables.items() if settings}

    def _is_taken(self, node: Node) -> bool:
        materialized = node.config.get("materialized")
        if node.text("language") not in ("", "sql"):
            self.result.miss(node.name, "a Python model: write it in SQL")
        elif materialized == "ephemeral":
            return False  # dbt has written it into the models that read it
        elif materialized not in (*_TABLES, "view"):
            self.result.miss(node.name, f"the materialization {str(materialized)[:80]!r} has no counterpart")
        elif node.config.get("enabled") is not False:
            return True
        return False

    def _choose_views(self) -> None:
        """Views that other models read are temporary views. Others would vanish, so they become tables."""
        read = {str(other) for node in self.models.values() for other in _list(node.section("depends_on"), "nodes")}
        names = Counter(node.name.lower() for node in self.models.values())
        for key, node in self.models.items():
            if node.config.get("materialized") != "view":
                continue
            if key in read:
                self.views[key] = node.name if names[node.name.lower()] == 1 else f"{node.text('schema')}_{node.name}"
            else:
                self.result.miss(
                    node.name, "a view that no model reads became a materialized view, so that it can be read"
                )

    def _add_model(self, node: Node) -> None:
        try:
            query = _read_query(node.text("compiled_code"), self.manifest.adapter)
            for table in list(find_tables(query)):
                self._rename(table, node)
            text = self._write(node, query)
        except (FirnError, SqlglotError) as error:
            hint = error.hint if isinstance(error, FirnError) and error.hint else "write it by hand"
            self.result.miss(node.name, f"its SQL was not imported: {str(error)[:300]}; {hint}")
            return
        self.queries[node.id] = query
        self.result.statements[node.name] = text
        for hook in ("pre-hook", "post-hook"):
            if node.config.get(hook):
                self.result.miss(node.name, f"its {hook} is not imported")

    def _rename(self, table: exp.Table, node: Node) -> None:
        parts = tuple(part.name.lower() for part in table.parts)
        key = self.relations.get(parts[-2:])
        if key == node.id:
            raise InvalidDefinition("it reads its own table", hint="compile with: dbt compile --full-refresh")
        if key is None:
            self.result.miss(node.name, f"it reads {'.'.join(parts)[:200]}, which the manifest does not have")
            names = [part.name for part in table.parts][-2:]
        else:
            table.meta["dbt"] = key
            names = [self.views[key]] if key in self.views else self._parts_of(key)
        if not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
        table.set("catalog", None)
        table.set("db", exp.to_identifier(names[0], quoted=True) if len(names) > 1 else None)
        table.set("this", exp.to_identifier(names[-1], quoted=True))

    def _write(self, node: Node, query: exp.Query) -> str:
        text = write_query(query)
        if node.id in self.views:
            return f"CREATE TEMPORARY VIEW {quote_name(self.views[node.id])} AS\n{text};\n"
        name = ".".join(map(quote_name, self._parts_of(node.id)))
        return f"CREATE MATERIALIZED VIEW {name} AS\n{text};\n"

    def _add_settings(self, node: Node, inputs: set[str]) -> None:
        settings = self.result.tables.setdefault(self._table_name(node), {})
        key = node.config.get("unique_key")
        columns = [key] if isinstance(key, str) else key if isinstance(key, list) else []
        columns = columns or find_key(self.manifest, node.id)
        if all(isinstance(column, str) and _NAME.fullmatch(column) for column in columns):
            settings |= {"key": [column.lower() for column in columns]} if columns else {}
        else:
            self.result.miss(node.name, "its unique_key is an expression: select it as a column, and name that as key")
        minutes = [_read_freshness(source) for source in self.manifest.sources if source.id in inputs]
        if known := [count for count in minutes if count]:
            settings["trigger"] = {"fresh_within": f"{min(known)} min"}

    def _find_inputs(self, key: str) -> set[str]:
        """The nodes that a model reads, through views."""
        seen: set[str] = set()
        waiting = [key]
        while waiting:
            read = {table.meta.get("dbt") for table in find_tables(self.queries[waiting.pop()])}
            new = {str(other) for other in read if other is not None} - seen
            seen |= new
            waiting += [other for other in new if other in self.views and other in self.queries]
        return {other for other in seen if other not in self.views}

    def _report_others(self) -> None:
        for node in self.manifest.list_nodes("snapshot"):
            self.result.miss(node.name, "a snapshot keeps old rows: read the changes of a keyed table instead")
        for node in self.manifest.list_nodes("seed"):
            self.result.miss(node.name, "a seed is a file: load it into a table, which is then an input")

    def _parts_of(self, key: str) -> list[str]:
        node = self.nodes.get(key)
        if node is None:
            return [key]
        return [part for part in (node.text("schema") or self.result.namespace, node.name) if part]

    def _name_of(self, key: str) -> str:
        return join_name(self._parts_of(key))

    def _table_name(self, node: Node) -> str:
        return self._name_of(node.id)


def _read_query(text: str, adapter: str) -> exp.Query:
    """The query, in Spark's dialect. Raises InvalidDefinition for what is no single query."""
    if not text.strip():
        raise InvalidDefinition("the manifest has no compiled code of it", hint="run: dbt compile --full-refresh")
    check_size(text)
    dialect = _DIALECTS.get(adapter, adapter)
    if dialect in (DIALECT, "databricks", "") or dialect not in sqlglot.Dialects.__members__.values():
        return parse_query(text)
    try:
        trees = [tree for tree in sqlglot.parse(text, read=dialect) if tree is not None]
        if len(trees) != 1 or not isinstance(trees[0], exp.Query):
            raise InvalidDefinition("it is not one query", hint="write one SELECT")
        return parse_query(trees[0].sql(WRITTEN, comments=False))
    except (SqlglotError, RecursionError, ValueError, KeyError, AttributeError, TypeError, IndexError) as error:
        raise InvalidDefinition(f"the SQL of {dialect} cannot be read: {str(error)[:200]}") from error


def _read_freshness(source: Node) -> int | None:
    """Minutes within which the source must have new rows."""
    freshness = source.section("freshness")
    for name in ("warn_after", "error_after"):
        limit = freshness.get(name)
        count = limit.get("count") if isinstance(limit, dict) else None
        unit = _MINUTES.get(str(limit.get("period"))) if isinstance(limit, dict) else None
        if isinstance(count, int) and unit and 0 < count * unit <= 366 * 1_440:
            return count * unit
    return None


def _list(section: Mapping[str, Any], name: str) -> Iterator[Any]:
    value = section.get(name)
    return iter(value if isinstance(value, list) else [])
