"""The statements of a pipeline's SQL files, as Spark writes them: views, streaming tables and flows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from pydantic import ValidationError
from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from firn.pipelines.auto_cdc import read_changes_flow
from firn.pipelines.parsing import parse_query, tokenize
from firn.pipelines.python_files import PythonDefinition
from firn.pipelines.streams import hide_streams, mark_streams
from firn.pipelines.token_reader import TokenReader, place_of
from firn.pipelines.validate_settings import explain_limits
from firn.protocol.validators import Severity, Validator, ValidatorKind

_NOT_YET: Final = {
    "VIEW": "Firn plans no lasting views: write CREATE MATERIALIZED VIEW or CREATE TEMPORARY VIEW",
    "TABLE": "Firn plans no tables of their own: write CREATE MATERIALIZED VIEW",
}


class StatementKind(Enum):
    """What a statement creates."""

    TABLE = "a materialized view"
    VIEW = "a temporary view"
    STREAMING = "a streaming table"
    FLOW = "a flow"
    CHANGES = "a flow of changes"  # AUTO CDC


@dataclass(frozen=True)
class Statement:
    """One statement. `columns` are the names that it lists; `properties` have the lines on which they stand.

    `partitioned_by` has columns and transforms as they are written. A flow has a `target`, and a `key` if it is one of
    changes. A streaming table that flows fill has a query without columns.
    """

    name: tuple[str, ...]
    query: exp.Query
    line: int
    kind: StatementKind = StatementKind.TABLE
    columns: tuple[str, ...] = ()
    partitioned_by: tuple[str, ...] = ()
    validators: tuple[Validator, ...] = ()
    properties: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    target: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    python: PythonDefinition | None = None
    """The function that computes it; `query` then only names the tables that it reads."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no query of its own."""
        return not self.query.selects


def read_statements(text: str) -> Iterator[Statement]:
    """The statements of a file. Raises InvalidDefinition with line and column for the first that is not understood."""
    tokens = tokenize(text)
    while tokens:
        end = next((number for number, token in enumerate(tokens) if token.token_type is TokenType.SEMICOLON), None)
        statement, tokens = (tokens, []) if end is None else (tokens[:end], tokens[end + 1 :])
        if statement:
            yield _StatementReader(text, statement).read()


class _StatementReader(TokenReader):
    def __init__(self, text: str, tokens: list[Token]) -> None:
        super().__init__(text, tokens)
        self.kind = StatementKind.TABLE
        self.columns: tuple[str, ...] = ()
        self.partitioned_by: list[str] = []
        self.validators: list[Validator] = []
        self.properties: dict[str, tuple[str, int]] = {}

    def read(self) -> Statement:
        line = self.tokens[0].line
        self._read_head()
        name = self.read_name()
        if self.kind is StatementKind.VIEW and len(name) > 1:
            self.refuse("a temporary view has no namespace", self.tokens[self.position - 1])
        if self.kind is StatementKind.FLOW:
            return self._read_flow(name, line)
        if self.is_at("("):
            self.columns = tuple(self._read_columns())
        while not self.take("AS") and not self._ends_without_query():
            self._read_clause()
        query = exp.Select() if self._ends_without_query() else self._read_query()
        return Statement(
            name=name,
            query=query,
            line=line,
            kind=self.kind,
            columns=self.columns,
            partitioned_by=tuple(self.partitioned_by),
            validators=tuple(self.validators),
            properties=self.properties,
        )

    def _read_head(self) -> None:
        if not self.take("CREATE"):
            self.refuse(f"{self.word()} stands where CREATE MATERIALIZED VIEW belongs")
        if self.take("OR") and not (self.take("REFRESH") or self.take("REPLACE")):
            self.refuse("REFRESH or REPLACE is missing after OR")
        if self.take("GLOBAL"):
            self.refuse("a view of a pipeline is not global", hint="write CREATE TEMPORARY VIEW")
        if self.word() in _NOT_YET:
            self.refuse(_NOT_YET[self.word()])
        if self.take("FLOW"):
            self.kind = StatementKind.FLOW
            return
        if self.take("STREAMING"):
            self.kind = StatementKind.STREAMING
            self.require("TABLE")
        elif self.take("TEMPORARY") or self.take("TEMP"):
            self.kind = StatementKind.VIEW
            self.require("VIEW")
        else:
            self.require("MATERIALIZED", "VIEW")
        if self.take("IF"):
            self.require("NOT", "EXISTS")

    def _ends_without_query(self) -> bool:
        """Whether it is a streaming table that flows fill."""
        return self.is_at_end and self.kind is StatementKind.STREAMING and self.tokens[-1].text.upper() != "AS"

    def _read_flow(self, name: tuple[str, ...], line: int) -> Statement:
        if self.take("COMMENT"):
            self.next_token("a text")
        self.require("AS")
        if self.take("AUTO", "CDC"):
            target, key, query = read_changes_flow(self)
            return Statement(name, query, line, StatementKind.CHANGES, target=target, key=key)
        self.require("INSERT", "INTO")
        if self.is_at("ONCE"):
            self.refuse("a flow that runs once has no place in a definition", hint="insert these rows into the source")
        target = self.read_name()
        self.require("BY", "NAME")
        return Statement(name, self._read_query(), line, StatementKind.FLOW, target=target)

    def _read_columns(self) -> Iterator[str]:
        self.require("(")
        while True:
            if self.is_at("CONSTRAINT"):
                self._read_constraint()
            else:
                yield self.read_identifier().lower()
                self.skip_until(",", ")")
            if not self.take(","):
                break
        self.require(")")

    def _read_constraint(self) -> None:
        """`CONSTRAINT name EXPECT (condition) [ON VIOLATION FAIL UPDATE | DROP ROW]`, as Databricks writes it."""
        if self.kind is StatementKind.VIEW:
            self.refuse("a temporary view has no constraints", hint="give them to the tables that read it")
        self.require("CONSTRAINT")
        name = self.read_identifier()
        if any(name == other.name for other in self.validators):
            self.refuse(f"the constraint {name} comes twice")
        self.require("EXPECT", "(")
        first = self.peek("a condition")
        self.skip_until(")")
        condition = self.text_since(first)
        self.require(")")
        severity = self._read_severity()
        try:
            validator = Validator(name=name, kind=ValidatorKind.EXPECT, severity=severity, condition=condition)
        except ValidationError as error:
            self.refuse(f"the constraint cannot be read: {explain_limits(error)}", first)
        self.validators.append(validator)

    def _read_severity(self) -> Severity:
        if not self.take("ON"):
            return Severity.WARN
        self.require("VIOLATION")
        if self.take("FAIL"):
            self.require("UPDATE")
            return Severity.FAIL
        self.require("DROP", "ROW")
        return Severity.DROP

    def _read_clause(self) -> None:
        if self.is_at_end:
            self.refuse("AS and the query are missing")
        word = self.word()
        clauses = self._clauses()
        if word not in clauses:
            place = "" if self.kind is StatementKind.TABLE else f" for {self.kind.value}"
            self.refuse(f"{word} is not understood here{place}: {', '.join(clauses)} or AS may follow")
        self.position += 1
        clauses[word]()

    def _clauses(self) -> dict[str, Callable[[], object]]:
        clauses: dict[str, Callable[[], object]] = {"COMMENT": lambda: self.next_token("a text")}
        if self.kind is StatementKind.VIEW:
            return clauses
        return {
            "USING": self.read_identifier,
            **clauses,
            "PARTITIONED BY": self._read_partitions,
            "CLUSTER BY": self.skip_parentheses,
            "TBLPROPERTIES": self._read_properties,
        }

    def _read_properties(self) -> None:
        self.require("(")
        while not self.take(")"):
            key = self._read_property_name()
            self.take("=")
            value = self.next_token("a value")
            if key in self.properties:
                self.refuse(f"the property {key} comes twice", value)
            self.properties[key] = (value.text, value.line)
            if not self.is_at(")"):
                self.require(",")

    def _read_property_name(self) -> str:
        parts = [self.next_token("a property").text]
        while self.take("."):
            parts.append(self.next_token("a property").text)
        return ".".join(parts)

    def _read_query(self) -> exp.Query:
        if self.is_at_end:
            self.refuse("the query is missing after AS")
        first, last = self.peek("the query"), self.tokens[-1]
        text, streams = hide_streams(self.text, self.tokens[self.position :])
        place = place_of(first)
        query = parse_query(text[first.start : last.end + 1], line=first.line, column=place.column or 1)
        mark_streams(query, streams)
        return query

    def _read_partitions(self) -> None:
        self.require("(")
        while True:
            first = self.next_token("a column")
            if not (self.is_at(",") or self.is_at(")")):
                self.skip_until(",", ")")
            self.partitioned_by.append(self.text_since(first))
            if self.take(")"):
                return
            self.require(",")
