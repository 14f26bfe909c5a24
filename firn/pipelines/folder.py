"""Reads the folder of a pipeline and puts its definitions in order; all problems of the folder are collected."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING

from sqlglot import exp

from firn.errors import Invalid
from firn.names import split_name
from firn.pipelines.append_queries import check_append
from firn.pipelines.code_definitions import build_code, read_python_statements, refuse_hidden, write_reads
from firn.pipelines.code_files import check_code, load_code
from firn.pipelines.code_settings import NO_CODE, CodeSettings
from firn.pipelines.definition import Definition, Pipeline, qualify_name
from firn.pipelines.errors import InvalidDefinition, Place
from firn.pipelines.flows import PlacedStatement, add_flows
from firn.pipelines.graph import order_definitions, read_inputs
from firn.pipelines.outputs import Output, check_output
from firn.pipelines.parsing import MAX_CHARACTERS, mark_file, too_deep
from firn.pipelines.settings import (
    FIRN_FILES,
    SPARK_FILES,
    FirnSettings,
    SparkSettings,
    TableSettings,
    read_firn_settings,
    read_spark_settings,
)
from firn.pipelines.statements import Statement, StatementKind
from firn.pipelines.streams import find_streams
from firn.pipelines.tables import find_tables, table_name
from firn.pipelines.templated_statements import read_file
from firn.pipelines.triggers import read_fresh_within
from firn.pipelines.views import View, is_view, resolve_views
from firn.protocol.pipeline_code import CodeFunction
from firn.protocol.pipeline_outputs import OutputMode
from firn.protocol.pipeline_sets import explain_wrong_sets
from firn.protocol.pipelines import Refresh, Trigger
from firn.protocol.validators import Validator

if TYPE_CHECKING:
    from firn.pipelines.templates import Reference

_MOST_FILES = 2_000


def read_folder(folder: Path, *, namespace: str | None = None) -> Pipeline:
    """Read a folder. Raises Invalid only if its YAML files cannot be read; other problems are in the result.

    `namespace` is that of names without one, if `spark-pipeline.yml` names none.
    """
    spark = read_spark_settings(_find_settings(folder, SPARK_FILES, is_required=True))
    spark = spark if spark.namespace else replace(spark, namespace=namespace)
    firn_path = _find_settings(folder, FIRN_FILES, is_required=False)
    firn = FirnSettings() if firn_path == folder else read_firn_settings(firn_path)
    return _FolderReader(folder, spark, firn).read()


@dataclass
class _FolderReader:
    folder: Path
    spark: SparkSettings
    firn: FirnSettings
    problems: list[InvalidDefinition] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    views: dict[str, View] = field(default_factory=dict)
    references: list[tuple[Path, Reference]] = field(default_factory=list)

    def read(self) -> Pipeline:
        for settings_path in filter(None, (self.spark.path, self.firn.path)):
            self.files[Path(settings_path).name] = _read_text(Path(settings_path))
        tables = {self._qualify(split_name(name)): settings for name, settings in self.firn.tables.items()}
        statements = self._read_statements()
        self._add_views([pair for pair in statements if pair[0].kind is StatementKind.VIEW])
        definitions: dict[str, Definition] = {}
        for statement, path in statements:
            if statement.kind is not StatementKind.VIEW:
                self._add(definitions, statement, path, tables)
        self._refuse_unknown(tables, definitions)
        self._refuse_unknown_references(definitions)
        resolved = resolve_views(definitions, self.views)
        loaded = load_code(resolved.definitions, self._load_module, self.spark.namespace, self.problems)
        ordered, problems = order_definitions(self._check_outputs(loaded))
        ordered = self._add_sets(ordered)
        sources = {self._qualify(split_name(name)): columns for name, columns in self.firn.sources.items() if columns}
        return Pipeline(
            name=self.spark.name,
            definitions=ordered,
            sources=sources,
            deterministic=self.firn.deterministic,
            problems=(*self.problems, *resolved.problems, *problems),
            warnings=resolved.warnings,
            catalog=self.spark.catalog,
            namespace=self.spark.namespace,
            files=self.files,
        )

    def _find_files(self) -> Iterator[Path]:
        files = sorted({path for pattern in self.spark.patterns for path in self._match(pattern)})
        if len(files) > _MOST_FILES:
            raise InvalidDefinition(f"the folder has {len(files):,} files; {_MOST_FILES:,} are allowed")
        if not files:
            hint = "transformations/ holds the SQL and Python files"
            self.problems.append(InvalidDefinition(f"{self.folder} has no definitions", hint=hint))
        for path in files:
            if path.suffix in (".sql", ".py") and "__pycache__" not in path.parts:
                yield path

    def _load_module(self, path: str) -> str | None:
        """The text of a Python file of the folder, which becomes one of the definition's files."""
        if path not in self.files and (self.folder / path).is_file():
            self.files[path] = _read_text(self.folder / path)
        return self.files.get(path)

    def _match(self, pattern: str) -> Iterator[Path]:
        if Path(pattern).is_absolute() or ".." in Path(pattern).parts:
            hint = "write a pattern below the folder"
            raise InvalidDefinition(f"the pattern {pattern} leaves the folder", path=str(self.folder), hint=hint)
        pattern = f"{pattern}/*" if pattern.endswith("**") else pattern
        return (path for path in self.folder.glob(pattern) if path.is_file())

    def _read_file(self, path: Path) -> Iterator[Statement]:
        try:
            text = self.files[str(path.relative_to(self.folder))] = _read_text(path)
            if path.suffix == ".py":
                yield from read_python_statements(text)
                return
            statements, references = read_file(text, self.firn.variables)
            self.references += [(path, reference) for reference in references]
            yield from statements
        except InvalidDefinition as problem:
            self._note(path, problem)
        except RecursionError:
            self._note(path, too_deep())

    def _read_statements(self) -> list[tuple[Statement, Path]]:
        """The statements of all files, with the queries of flows in their streaming tables."""
        placed = [
            PlacedStatement(statement, str(path.relative_to(self.folder)))
            for path in self._find_files()
            for statement in self._read_file(path)
        ]
        statements, problems = add_flows(placed, self._qualify)
        self.problems += problems
        return [(placed.statement, self.folder / placed.path) for placed in statements]

    def _add_views(self, statements: Sequence[tuple[Statement, Path]]) -> None:
        """Collect the temporary views: their names first, because they may read each other."""
        named: dict[str, tuple[Statement, Path]] = {}
        for statement, path in statements:
            other, place = named.setdefault(statement.name[0].lower(), (statement, path))
            if other is not statement:
                where = f"{place.relative_to(self.folder)}, line {other.line}"
                text = f"the temporary view {statement.name[0]} is defined in {where}, too"
                self._note(path, InvalidDefinition(text, line=statement.line))
        for name, (statement, path) in named.items():
            query = self._name_tables(statement.query, named)
            relative = str(path.relative_to(self.folder))
            mark_file(query, relative)
            python = statement.python
            function = None if python is None else CodeFunction(path=relative, name=python.function)
            self.views[name] = View(statement.name[0], query, relative, statement.line, statement.columns, function)

    def _name_tables(self, query: exp.Query, views: Container[str]) -> exp.Query:
        """A copy of a query that names its tables within the catalog, and views as it did."""
        copy = query.copy()
        for table in list(find_tables(copy)):
            if not is_view(table, views):
                _rename(table, split_name(self._qualify([part.name for part in table.parts])))
        return copy

    def _define(self, statement: Statement, path: Path, tables: Mapping[str, TableSettings]) -> Definition:
        name = self._qualify(statement.name)
        settings = tables.get(name)
        relative = str(path.relative_to(self.folder))
        code_settings = NO_CODE if settings is None else settings.code
        code, declared, source = build_code(statement, code_settings, relative)
        query = self._name_tables(_choose_reads(statement, code_settings), self.views)
        key = _read_key(statement, settings)
        return Definition(
            name=name,
            query=query,
            path=relative,
            line=statement.line,
            columns=statement.columns or tuple(declared),
            key=key,
            refresh=_read_refresh(statement, settings) or self.firn.refresh,
            partitioned_by=statement.partitioned_by,
            trigger=_read_trigger(statement, settings) or self.firn.trigger,
            validators=self._read_validators(statement, settings),
            output=self._read_output(statement, settings),
            code=code,
            declared=declared,
            source=source,
        )

    def _read_output(self, statement: Statement, settings: TableSettings | None) -> Output:
        """How the table is written, with the names of its streams within the catalog, as far as YAML has them."""
        configured = Output() if settings is None else settings.output
        streams = tuple(self._qualify(split_name(name)) for name in configured.streams)
        mode = OutputMode.APPEND if statement.kind is StatementKind.STREAMING else None
        if mode is not None and configured.mode not in (None, mode):
            text = f"a streaming table is appended to, and firn-pipeline.yml says mode: {configured.mode}"
            raise InvalidDefinition(text, line=statement.line, hint="write CREATE MATERIALIZED VIEW")
        return replace(
            configured,
            mode=mode or configured.mode,
            streams=streams,
            on_change=configured.on_change or self.firn.on_change,
            audit=configured.audit or self.firn.audit,
            max_commits=configured.max_commits or self.firn.max_commits,
        )

    def _check_outputs(self, definitions: Mapping[str, Definition]) -> dict[str, Definition]:
        """The definitions whose outputs are possible. Their queries read tables alone, no views."""
        checked: dict[str, Definition] = {}
        for name, definition in definitions.items():
            inputs = sorted({table_name(table) for table in find_tables(definition.query)})
            streams = tuple(dict.fromkeys((*definition.output.streams, *find_streams(definition.query))))
            output = replace(definition.output, streams=streams)
            try:
                check_output(output, definition.key, inputs, definition.line)
                if streams and definition.is_planned:
                    check_append(definition.query, streams)
                check_code(replace(definition, output=output))
                checked[name] = replace(definition, output=output)
            except InvalidDefinition as problem:
                self.problems.append(problem.in_file(definition.path))
        return checked

    def _read_validators(self, statement: Statement, settings: TableSettings | None) -> tuple[Validator, ...]:
        """Those of the statement and of the settings, with the tables that they name within the catalog."""
        configured = () if settings is None else settings.validators
        names = [validator.name for validator in (*statement.validators, *configured)]
        if repeated := next((name for name in names if names.count(name) > 1), None):
            raise InvalidDefinition(f"the validator {repeated} stands in firn-pipeline.yml, too", line=statement.line)
        return tuple(
            validator
            if validator.table is None
            else validator.model_copy(update={"table": self._qualify(split_name(validator.table))})
            for validator in (*statement.validators, *configured)
        )

    def _add(
        self,
        definitions: dict[str, Definition],
        statement: Statement,
        path: Path,
        tables: Mapping[str, TableSettings],
    ) -> None:
        try:
            definition = self._define(statement, path, tables)
        except InvalidDefinition as problem:
            self._note(path, problem)
            return
        other = definitions.get(definition.name)
        view = self.views.get(statement.name[-1].lower())
        if other is not None:
            text = f"{definition.name} is defined in {other.path}, line {other.line}, too"
            self._note(path, InvalidDefinition(text, line=definition.line))
        elif view is not None and self._qualify([view.name]) == definition.name:
            text = f"{view.name} is a temporary view, too: {view.path}, line {view.line}"
            self._note(path, InvalidDefinition(text, line=definition.line, hint="give one of them another name"))
        else:
            definitions[definition.name] = definition

    def _refuse_unknown(self, tables: Mapping[str, TableSettings], definitions: Mapping[str, Definition]) -> None:
        for name, settings in tables.items():
            if name not in definitions and not self.problems:
                near = get_close_matches(name, list(definitions), n=1)
                hint = f"did you mean {near[0]}?" if near else None
                text = f"no file defines {name}"
                self.problems.append(InvalidDefinition(text, path=self.firn.path, line=settings.line, hint=hint))

    def _add_sets(self, definitions: dict[str, Definition]) -> dict[str, Definition]:
        """The definitions with the sets that they belong to. A table of a set may have had an error."""
        sets = [tuple(self._qualify(split_name(name)) for name in members) for members in self.firn.consistent]
        inputs = {name: list(read_inputs(definition)) for name, definition in definitions.items()}
        wrong = None if self.problems else explain_wrong_sets(sets, inputs)
        if wrong is not None:
            text, hint = wrong
            line = self.firn.consistent_line
            self.problems.append(InvalidDefinition(text, path=self.firn.path, line=line, hint=hint))
        together = {name: members for members in sets for name in members}
        return {name: replace(entry, consistent=together.get(name, ())) for name, entry in definitions.items()}

    def _refuse_unknown_references(self, definitions: Mapping[str, Definition]) -> None:
        """`ref()` names what the pipeline makes. The file of another table may have had an error."""
        known = [*definitions, *(view.name for view in self.views.values())]
        for path, reference in [] if self.problems else self.references:
            name = self._qualify(reference.parts)
            if name not in definitions and ".".join(reference.parts).lower() not in self.views:
                near = get_close_matches(name, known, n=1) or get_close_matches(reference.parts[-1], known, n=1)
                hint = (
                    f"did you mean {near[0]}?" if near else "name an input of the pipeline by source(NAMESPACE, TABLE)"
                )
                self._note(path, InvalidDefinition(f"ref(): no file defines {name}", line=reference.line, hint=hint))

    def _qualify(self, parts: Sequence[str]) -> str:
        """The name of a table within the pipeline's catalog."""
        return qualify_name(parts, self.spark.catalog, self.spark.namespace)

    def _note(self, path: Path, problem: InvalidDefinition) -> None:
        self.problems.append(problem.in_file(str(path.relative_to(self.folder))))


def _choose_reads(statement: Statement, settings: CodeSettings) -> exp.Query:
    """The query of a statement; of Python one that names the tables of `reads`, or those that its text names."""
    if statement.python is None:
        return statement.query
    if settings.reads is None:
        refuse_hidden(statement.python)
        return statement.query
    return write_reads({tuple(split_name(name)): Place(statement.line, 1) for name in settings.reads})


def _find_settings(folder: Path, names: Sequence[str], *, is_required: bool) -> Path:
    """The one file of these names; the folder itself if there is none and none is required."""
    paths = [folder / name for name in names if (folder / name).is_file()]
    if len(paths) > 1:
        raise Invalid(f"{folder} has {names[0]} and {names[1]}", hint="delete one of them")
    if not paths and is_required:
        raise Invalid(f"{folder} has no {names[0]}", hint="make an example with: firn pipeline init DIR")
    return paths[0] if paths else folder


def _read_text(path: Path) -> str:
    if path.stat().st_size > 4 * MAX_CHARACTERS:
        raise InvalidDefinition(f"the file is larger than {4 * MAX_CHARACTERS:,} bytes", hint="split it")
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        raise InvalidDefinition("the file is not UTF-8") from error


def _rename(table: exp.Table, parts: Sequence[str]) -> None:
    if not table.alias:
        table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
    identifiers: list[exp.Expr] = [exp.to_identifier(part, quoted=True) for part in parts]
    for identifier in identifiers:
        identifier.meta.update(table.parts[0].meta)
    table.set("catalog", identifiers[-3] if len(identifiers) > 2 else None)
    table.set("db", identifiers[-2] if len(identifiers) > 1 else None)
    table.set("this", identifiers[-1])


def _read_key(statement: Statement, settings: TableSettings | None) -> tuple[str, ...]:
    value, line = statement.properties.get("firn.primary-key", ("", 0))
    if statement.key:
        if value or (settings is not None and settings.key):
            raise InvalidDefinition("KEYS of the flow is the key already", line=statement.line, hint="remove the other")
        return statement.key
    if value and settings is not None and settings.key:
        raise InvalidDefinition("the key stands in firn-pipeline.yml, too", line=line, hint="keep one of them")
    if value:
        return tuple(name.strip().lower() for name in value.split(","))
    return () if settings is None else settings.key


def _read_trigger(statement: Statement, settings: TableSettings | None) -> Trigger | None:
    value, line = statement.properties.get("firn.fresh-within", ("", 0))
    configured = None if settings is None else settings.trigger
    if value and configured is not None:
        raise InvalidDefinition("a trigger stands in firn-pipeline.yml, too", line=line, hint="keep one of them")
    return read_fresh_within(value, line) if value else configured


def _read_refresh(statement: Statement, settings: TableSettings | None) -> Refresh | None:
    value, line = statement.properties.get("firn.refresh", ("", 0))
    if value and settings is not None and settings.refresh is not None:
        raise InvalidDefinition("refresh stands in firn-pipeline.yml, too", line=line, hint="keep one of them")
    if not value:
        return None if settings is None else settings.refresh
    known = [str(policy) for policy in Refresh]
    if value not in known:
        near = get_close_matches(value, known, n=1)
        hint = f"did you mean {near[0]}?" if near else None
        raise InvalidDefinition(f"firn.refresh is {value!r}, not one of {', '.join(known)}", line=line, hint=hint)
    return Refresh(value)
