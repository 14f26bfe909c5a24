"""What `firn pipeline put` sends to the server: the definitions of a folder, planned, with names within the catalog."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from pydantic import ValidationError

from firn.errors import FirnError, Invalid
from firn.names import split_name
from firn.pipelines.code_definitions import fingerprint_code
from firn.pipelines.definition import Definition, Pipeline
from firn.pipelines.errors import InvalidDefinition, Place
from firn.pipelines.explain import explain_term
from firn.pipelines.fingerprint import find_extended, fingerprint_append, fingerprint_query, fingerprint_text
from firn.pipelines.graph import read_inputs
from firn.pipelines.lineage import trace_columns
from firn.pipelines.parsing import DIALECT, parse_query
from firn.pipelines.plan import Access, Plan, Reason, Term
from firn.pipelines.table_plans import TablePlan, hide_filled, plan_pipeline
from firn.protocol.pipeline_outputs import AuditMode, OnChange, OutputMode
from firn.protocol.pipeline_plan import QueryTerm
from firn.protocol.pipelines import MOST_TABLES, FullReason, PipelineFile, PutPipeline, Refresh, TableDefinition


class StoredQuery(NamedTuple):
    """The query of a table as the server has it."""

    query: str
    fingerprint: str
    extends: str | None


LoadColumns = Callable[[str], Mapping[str, str] | None]
_MOST_REASONS = 100


def build_put(
    pipeline: Pipeline,
    load: LoadColumns,
    *,
    catalog: str,
    stored: Mapping[str, StoredQuery] | None = None,
    rebuild: bool = False,
    dry_run: bool = False,
) -> PutPipeline:
    """The request for a folder that was read. `load` gives the columns of inputs, as in `plan_pipeline`.

    `catalog` is used if `spark-pipeline.yml` names none. `stored` are the queries that the server has, by table: a
    query that only adds columns to one of these needs no `rebuild`. Raises the first problem of the folder, and
    FirnError if the columns of an input are not known.
    """
    if pipeline.problems:
        raise pipeline.problems[0]
    columns = _Columns(pipeline, load)
    count = len(pipeline.definitions)
    if count > MOST_TABLES:
        raise Invalid(f"the folder defines {count:,} tables; {MOST_TABLES:,} are allowed", hint="split it")
    plans = plan_pipeline(pipeline, columns.load)
    try:
        return PutPipeline(
            catalog=pipeline.catalog or catalog,
            files=[PipelineFile(path=path, text=text) for path, text in sorted(pipeline.files.items())],
            tables=[_define_table(table, columns, (stored or {}).get(table.definition.name)) for table in plans],
            deterministic=[*pipeline.deterministic],
            rebuild=rebuild,
            dry_run=dry_run,
        )
    except ValidationError as error:
        raise _refuse_message(error) from error


class _Columns:
    """The columns by which tables were planned: those of inputs, and of the pipeline's tables before them."""

    def __init__(self, pipeline: Pipeline, load: LoadColumns) -> None:
        self.known: dict[str, Mapping[str, str]] = {**pipeline.sources}
        self.files = pipeline.files
        self._load = load

    def load(self, name: str) -> Mapping[str, str] | None:
        columns = self._load(name)
        if columns is not None:
            self.known[name] = columns
        return columns

    def add(self, table: TablePlan) -> None:
        if table.columns:
            self.known[table.definition.name] = table.columns

    def hide_filled(self, definition: Definition, inputs: Iterable[str]) -> dict[str, Mapping[str, str]]:
        """The columns of inputs, without those that the definition itself fills."""
        known = {name: self.known[name] for name in inputs}
        return hide_filled(known, definition.name, definition.output.columns)


def _define_table(table: TablePlan, columns: _Columns, stored: StoredQuery | None) -> TableDefinition:
    definition, plan = table.definition, _require_plan(table)
    inputs = read_inputs(definition)
    _check_names(definition, inputs)
    is_planned = definition.is_planned and not table.is_later
    schema = columns.hide_filled(definition, inputs) if is_planned else {}
    if definition.mode is not OutputMode.COLUMNS:  # others made that table, and it has more columns
        columns.add(table)
    query, fingerprint = _write_query(definition, schema) if is_planned else _write_unplanned(definition)
    if definition.code is not None:
        fingerprint = fingerprint_code(definition, columns.files, fingerprint)
    is_append = definition.mode is OutputMode.APPEND
    return TableDefinition(
        name=definition.name,
        query=query,
        path=definition.path,
        line=definition.line,
        inputs=[*inputs],
        code=definition.code,
        key=[*definition.key],
        partitioned_by=[*definition.partitioned_by],
        mode=definition.output.mode,
        columns=[*definition.output.columns],
        streams=definition.output.list_streams(),
        audit=definition.output.audit or AuditMode.AUTO,
        consistent=[*definition.consistent],
        on_change=definition.output.on_change or OnChange.ASK,
        max_commits=definition.output.max_commits,
        refresh=Refresh(definition.refresh),
        trigger=definition.trigger,
        validators=[*definition.validators],
        fingerprint=fingerprint_append(fingerprint, definition.output.streams) if is_append else fingerprint,
        extends=_find_extended(definition, schema, stored, fingerprint) if is_planned and not is_append else None,
        incremental=table.is_incremental,
        scope=[] if is_append else [*plan.scope],
        terms=[] if is_append else [_write_term(term) for term in plan.terms],
        prunes=not is_append and bool(plan.pruned_columns()),
        lineage=trace_columns(definition.query, schema) if is_planned and definition.code is None else [],
        reasons=[] if is_append or table.is_later else [*_write_reasons(plan.reasons)],
    )


def _require_plan(table: TablePlan) -> Plan:
    if table.problem is not None:
        raise table.problem
    if table.plan is None:
        text = f"{table.definition.name}: the columns of {', '.join(table.unknown)} are not known"
        raise FirnError(text, hint="create these tables first")
    return table.plan


def _find_extended(
    definition: Definition, schema: Mapping[str, Mapping[str, str]], stored: StoredQuery | None, fingerprint: str
) -> str | None:
    if stored is None or definition.code is not None:
        return None
    if stored.fingerprint == fingerprint:
        return stored.extends  # the server may not have run it yet
    try:
        return find_extended(definition.query, schema, parse_query(stored.query), stored.fingerprint)
    except InvalidDefinition:  # an older version of Firn may have taken the old query
        return None


def _write_unplanned(definition: Definition) -> tuple[str, str]:
    """The text of code, or of a query that only a run can plan, and what stands for its fingerprint."""
    if definition.is_planned:
        text = definition.query.sql(DIALECT, pretty=True, comments=False)
        return text, fingerprint_text(definition.query)
    is_python = definition.code is not None and definition.code.function is not None
    return definition.source, "" if is_python else fingerprint_text(parse_query(definition.source))


def _write_query(definition: Definition, schema: Mapping[str, Mapping[str, str]]) -> tuple[str, str]:
    """The query as text, and its fingerprint. Raises InvalidDefinition if the text does not mean the same."""
    text = definition.query.sql(DIALECT, pretty=True, comments=False)
    fingerprint = fingerprint_query(definition.query, schema)
    if fingerprint_query(parse_query(text), schema) != fingerprint:
        reason = f"{definition.name}: Firn cannot write this query as one text"
        raise InvalidDefinition(reason, path=definition.path, line=definition.line, hint="write it in simpler SQL")
    return text, fingerprint


def _check_names(definition: Definition, inputs: Mapping[str, Place]) -> None:
    """Each table needs a namespace, because the server knows no current one."""
    places = {definition.name: Place(definition.line), **inputs}
    for name, place in places.items():
        if len(split_name(name)) < 2:
            text, hint = f"{name} has no namespace", "write NAMESPACE.TABLE, or name a `database` in spark-pipeline.yml"
            raise InvalidDefinition.at(place, text, hint=hint).in_file(definition.path)


def _refuse_message(error: ValidationError) -> Invalid:
    """The error for a definition that is larger than a message may be."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return Invalid(f"the definition cannot be sent: {place}: {first['msg']}", hint="make it shorter")


def _write_term(term: Term) -> QueryTerm:
    joined = [] if term.access is Access.ROWS else [*dict.fromkeys(term.joined)]
    return QueryTerm(inputs=[*term.inputs], joined=joined, text=explain_term(term))


def _write_reasons(reasons: Sequence[Reason]) -> Iterator[FullReason]:
    for reason in reasons[:_MOST_REASONS]:
        yield FullReason(
            text=reason.text, path=reason.path, line=reason.line, column=reason.column, remedy=reason.remedy
        )
