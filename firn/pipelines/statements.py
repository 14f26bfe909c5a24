"""The statements of a pipeline's SQL files: `CREATE MATERIALIZED VIEW … AS SELECT`, as Spark writes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn

from pydantic import ValidationError
from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from firn.pipelines.errors import InvalidDefinition
from firn.pipelines.parsing import parse_query, tokenize
from firn.pipelines.validate_settings import explain_limits
from firn.protocol.validators import Severity, Validator, ValidatorKind

_NOT_YET: Final = {
    "STREAMING": "Firn plans no streaming tables yet",
    "FLOW": "Firn plans no flows yet",
    "TEMPORARY": "Firn plans no temporary views yet: write it as a CTE",
    "TEMP": "Firn plans no temporary views yet: write it as a CTE",
    "VIEW": "Firn plans no views: write CREATE MATERIALIZED VIEW",
    "TABLE": "Firn plans no tables of their own: write CREATE MATERIALIZED VIEW",
}


@dataclass(frozen=True)
class Statement:
    """A materialized view. `columns` are the names that it lists; `properties` have the lines on which they stand.

    `partitioned_by` has columns and transforms as they are written.
    """

    name: tuple[str, ...]
    query: exp.Query
    line: int
    columns: tuple[str, ...] = ()
    partitioned_by: tuple[str, ...] = ()
    validators: tuple[Validator, ...] = ()
    properties: Mapping[str, tuple[str, int]] = field(default_factory=dict)


def read_statements(text: str) -> Iterator[Statement]:
    """The statements of a file. Raises InvalidDefinition with line and column for the first that is not understood."""
    tokens = tokenize(text)
    while tokens:
        end = next((number for number, token in enumerate(tokens) if token.token_type is TokenType.SEMICOLON), None)
        statement, tokens = (tokens, []) if end is None else (tokens[:end], tokens[end + 1 :])
        if statement:
            yield _Reader(text, statement).read()


class _Reader:
    """Reads one statement, token by token."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.position = 0
        self.columns: tuple[str, ...] = ()
        self.partitioned_by: list[str] = []
        self.validators: list[Validator] = []
        self.properties: dict[str, tuple[str, int]] = {}

    def read(self) -> Statement:
        line = self.tokens[0].line
        self._read_head()
        name = self._read_name()
        if self._is_at("("):
            self.columns = tuple(self._read_columns())
        while not self._take("AS"):
            self._read_clause()
        query = self._read_query()
        return Statement(
            name=name,
            query=query,
            line=line,
            columns=self.columns,
            partitioned_by=tuple(self.partitioned_by),
            validators=tuple(self.validators),
            properties=self.properties,
        )

    def _read_head(self) -> None:
        if not self._take("CREATE"):
            self._refuse(f"{self._word()} stands where CREATE MATERIALIZED VIEW belongs")
        if self._take("OR") and not (self._take("REFRESH") or self._take("REPLACE")):
            self._refuse("REFRESH or REPLACE is missing after OR")
        if self._word() in _NOT_YET:
            self._refuse(_NOT_YET[self._word()])
        for word in ("MATERIALIZED", "VIEW"):
            self._require(word)
        if self._take("IF"):
            self._require("NOT")
            self._require("EXISTS")

    def _read_name(self) -> tuple[str, ...]:
        parts = [self._read_identifier()]
        while self._take("."):
            parts.append(self._read_identifier())
        return tuple(parts)

    def _read_identifier(self) -> str:
        token = self._next("a name")
        if token.token_type is TokenType.STRING or not (token.text.strip() and (token.text[0] not in "()=,.;")):
            self._refuse("a name is missing", token)
        return token.text

    def _read_columns(self) -> Iterator[str]:
        self._require("(")
        while True:
            if self._word() == "CONSTRAINT":
                self._read_constraint()
            else:
                yield self._read_identifier().lower()
                self._skip_until(",", ")")
            if not self._take(","):
                break
        self._require(")")

    def _read_constraint(self) -> None:
        """`CONSTRAINT name EXPECT (condition) [ON VIOLATION FAIL UPDATE | DROP ROW]`, as Databricks writes it."""
        self._require("CONSTRAINT")
        name = self._read_identifier()
        if any(name == other.name for other in self.validators):
            self._refuse(f"the constraint {name} comes twice")
        self._require("EXPECT")
        self._require("(")
        first = self._next("a condition")
        self._skip_until(")")
        last = self.tokens[self.position - 1]
        self._require(")")
        severity = Severity.WARN
        if self._take("ON"):
            self._require("VIOLATION")
            severity = Severity.FAIL if self._take("FAIL") else Severity.DROP
            self._require("UPDATE" if severity is Severity.FAIL else "DROP")
            if severity is Severity.DROP:
                self._require("ROW")
        condition = self.text[first.start : last.end + 1]
        try:
            validator = Validator(name=name, kind=ValidatorKind.EXPECT, severity=severity, condition=condition)
        except ValidationError as error:
            self._refuse(f"the constraint cannot be read: {explain_limits(error)}", first)
        self.validators.append(validator)

    def _read_clause(self) -> None:
        if self.position >= len(self.tokens):
            self._refuse("AS and the query are missing")
        word = self._word()
        clauses: dict[str, Callable[[], object]] = {
            "USING": self._read_identifier,
            "COMMENT": lambda: self._next("a text"),
            "PARTITIONED BY": self._read_partitions,
            "CLUSTER BY": self._skip_parentheses,
            "TBLPROPERTIES": self._read_properties,
        }
        if word not in clauses:
            self._refuse(f"{word} is not understood here: {', '.join(clauses)} or AS may follow")
        self.position += 1
        clauses[word]()

    def _read_properties(self) -> None:
        self._require("(")
        while not self._take(")"):
            key = self._read_property_name()
            self._take("=")
            value = self._next("a value")
            if key in self.properties:
                self._refuse(f"the property {key} comes twice", value)
            self.properties[key] = (value.text, value.line)
            if not self._is_at(")"):
                self._require(",")

    def _read_property_name(self) -> str:
        parts = [self._next("a property").text]
        while self._take("."):
            parts.append(self._next("a property").text)
        return ".".join(parts)

    def _read_query(self) -> exp.Query:
        if self.position >= len(self.tokens):
            self._refuse("the query is missing after AS")
        first, last = self.tokens[self.position], self.tokens[-1]
        sql = self.text[first.start : last.end + 1]
        return parse_query(sql, line=first.line, column=_column(first))

    def _read_partitions(self) -> None:
        self._require("(")
        while True:
            first = self._next("a column")
            if not (self._is_at(",") or self._is_at(")")):
                self._skip_until(",", ")")
            last = self.tokens[self.position - 1]
            self.partitioned_by.append(self.text[first.start : last.end + 1])
            if self._take(")"):
                return
            self._require(",")

    def _skip_parentheses(self) -> None:
        self._require("(")
        self._skip_until(")")
        self._require(")")

    def _skip_until(self, *ends: str) -> None:
        """Move to the first of `ends` outside of inner parentheses."""
        depth = 0
        while self.position < len(self.tokens):
            word = self._word()
            if depth == 0 and word in ends:
                return
            depth += (word == "(") - (word == ")")
            self.position += 1
        self._refuse("a parenthesis does not end")

    def _word(self) -> str:
        if self.position >= len(self.tokens):
            return ""
        token = self.tokens[self.position]
        is_quoted = token.token_type in (TokenType.STRING, TokenType.IDENTIFIER)
        return "" if is_quoted else " ".join(token.text.upper().split())

    def _is_at(self, word: str) -> bool:
        return self._word() == word

    def _take(self, word: str) -> bool:
        if not self._is_at(word):
            return False
        self.position += 1
        return True

    def _require(self, word: str) -> None:
        if not self._take(word):
            self._refuse(f"{word} is missing")

    def _next(self, expected: str) -> Token:
        if self.position >= len(self.tokens):
            self._refuse(f"{expected} is missing")
        self.position += 1
        return self.tokens[self.position - 1]

    def _refuse(self, reason: str, token: Token | None = None) -> NoReturn:
        place = token or self.tokens[min(self.position, len(self.tokens) - 1)]
        raise InvalidDefinition(reason, line=place.line, column=_column(place))


def _column(token: Token) -> int:
    return token.col - (token.end - token.start)
