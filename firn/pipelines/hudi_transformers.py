"""The transformers of a Hudi Streamer as SQL: each but the last becomes a temporary view that the next one reads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from firn.pipelines.errors import InvalidDefinition
from firn.pipelines.hudi_files import StreamerSettings
from firn.pipelines.imported import Import, write_query
from firn.pipelines.parsing import DIALECT, check_size, parse_query
from firn.pipelines.tables import find_tables
from firn.protocol.names import quote_name

_SOURCE: Final = "<SRC>"
_QUERY: Final = "SqlQueryBasedTransformer"
_FILE: Final = "SqlFileBasedTransformer"
_PATHS: Final = frozenset({"avro", "binaryfile", "csv", "delta", "hudi", "json", "orc", "parquet", "text"})
"""Names in front of a path: Spark reads files for them."""


@dataclass
class Chain:
    """The SQL of one target: views by name, and the query that gives its rows."""

    settings: StreamerSettings
    result: Import
    name: str
    """The name of the target in the report."""
    target: str
    """Its last part, with which names of views begin."""
    source: str
    """The relation that `<SRC>` of the next transformer is, as SQL."""
    reserved_names: frozenset[str] = frozenset()
    views: dict[str, str] = field(default_factory=dict)

    def read(self) -> exp.Query:
        """The query of the target. Raises InvalidDefinition if it cannot be written."""
        steps = list(self._list_steps())
        for number, (name, text) in enumerate(steps, 1):
            if text is None:
                self._skip(name, number)
                continue
            query = self._read_statements(text)
            if number == len(steps):
                return query
            self.source = self._add_view(f"{self.target}_{number}", query)
        return parse_query(f"SELECT * FROM {self.source}")  # noqa: S608 -- a quoted name

    def _list_steps(self) -> Iterator[tuple[str, str | None]]:
        """Class and SQL of each transformer; None for Java code."""
        classes = self.settings.get("--transformer-class") or self.settings.get_streamer("transformer.class")
        entries = [entry.strip() for entry in classes.split(",") if entry.strip()] or self._guess_classes()
        for entry in entries:
            identity, _, full_name = entry.rpartition(":")
            suffix = f".{identity}" if identity else ""
            name = full_name.rpartition(".")[2]
            if name == _QUERY:
                yield entry, self._require(f"transformer.sql{suffix}")
            elif name == _FILE:
                yield entry, self.settings.read_beside(self._require(f"transformer.sql.file{suffix}"))
            else:
                yield entry, None

    def _guess_classes(self) -> list[str]:
        """The class stands in the command, which a properties file does not have; its SQL is a property."""
        if self.settings.get_streamer("transformer.sql"):
            return [_QUERY]
        return [_FILE] if self.settings.get_streamer("transformer.sql.file") else []

    def _require(self, name: str) -> str:
        text = self.settings.get_streamer(name)
        if not text:
            raise InvalidDefinition(f"hoodie.streamer.{name} is not set", hint="add it to the properties")
        return text

    def _skip(self, name: str, number: int) -> None:
        """Leave a gap for Java code: the next query reads a view that nobody defines, so nothing runs without it."""
        view = quote_name(f"{self.target}_{number}")
        remedy = f"write it as the temporary view {view}, which reads {self.source}"
        self.result.miss(self.name, f"the transformer {name[:200]} is Java code: {remedy}")
        self.source = view

    def _read_statements(self, text: str) -> exp.Query:
        """The last statement. The others name parts of it, which become views."""
        check_size(text)
        trees = _parse(text.replace(_SOURCE, self.source))
        names: dict[str, str] = {}
        for tree in trees[:-1]:
            name, query = _read_part(tree)
            self._prepare(query, names)
            names[name.lower()] = self._add_view(name, query)
        last = trees[-1]
        if not isinstance(last, exp.Query):
            raise InvalidDefinition(f"its SQL ends with {last.key.upper()}", hint="end it with one SELECT")
        query = parse_query(last.sql(DIALECT, comments=False))
        self._prepare(query, names)
        return query

    def _prepare(self, query: exp.Query, names: dict[str, str]) -> None:
        """Name views as the folder does. Raises InvalidDefinition for a path, which no definition may read."""
        for table in list(find_tables(query)):
            if table.db.lower() in _PATHS:
                raise InvalidDefinition(f"it reads files: {table.name[:200]}", hint="read a table instead")
            view = None if table.db else names.get(table.name.lower())
            if view is not None and view != quote_name(table.name):
                alias = table.alias or table.name
                table.replace(exp.alias_(exp.maybe_parse(view, into=exp.Table, dialect=DIALECT), alias, table=True))

    def _add_view(self, name: str, query: exp.Query) -> str:
        """Define a view, and return its name as SQL. Views of other targets may have the name."""
        stem, number = name, 2
        while name.lower() in self.reserved_names or name in self.views:
            name, number = f"{self.target}_{stem}" if number == 2 else f"{self.target}_{stem}_{number}", number + 1
        self.views[name] = f"CREATE TEMPORARY VIEW {quote_name(name)} AS\n{write_query(query)};\n"
        return quote_name(name)


def _parse(text: str) -> list[exp.Expr]:
    try:
        trees = [tree for tree in sqlglot.parse(text, read=DIALECT) if tree is not None]
    except (SqlglotError, RecursionError, ValueError, KeyError, AttributeError, TypeError, IndexError) as error:
        raise InvalidDefinition(f"the SQL cannot be read: {str(error)[:200]}") from error
    trees = [tree for tree in trees if not isinstance(tree, exp.Semicolon)]
    if not trees:
        raise InvalidDefinition("its SQL is empty", hint="write one SELECT")
    return trees


def _read_part(tree: exp.Expr) -> tuple[str, exp.Query]:
    """Name and query of `CACHE TABLE name AS …` and `CREATE TEMPORARY VIEW name AS …`."""
    is_view = isinstance(tree, exp.Create) and tree.find(exp.TemporaryProperty) is not None
    query = tree.args.get("expression")
    if not (isinstance(tree, exp.Cache) or is_view) or not isinstance(query, exp.Query):
        raise InvalidDefinition(
            f"its SQL has {tree.key.upper()}", hint="keep CACHE TABLE, CREATE TEMPORARY VIEW, and a last SELECT"
        )
    return tree.find(exp.Table).name, parse_query(query.sql(DIALECT, comments=False))  # type: ignore[union-attr]
