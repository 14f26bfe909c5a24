"""Statements that ask the catalog, not the rows: SHOW and DESCRIBE.

The server answers them itself, for both engines alike. So they have a small grammar of their own, and a name in them is
nothing but a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from catalog.errors import Invalid
from server.service.queries.parsing import MOST_CHARACTERS, NamedTable

MOST_PARTS = 20
MOST_WORDS = 100
_TOKEN = re.compile(
    r"""(?P<blank>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<backtick>`(?:[^`]|``)*`)
    |(?P<double>"(?:[^"]|"")*")
    |(?P<single>'(?:[^'\\]|''|\\.)*')
    |(?P<word>\w+)
    |(?P<sign>[.;(),])
    |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"''|\\(.)", re.DOTALL)


class CatalogQuestion(StrEnum):
    """What a statement asks the catalog for."""

    CATALOGS = "SHOW CATALOGS"
    NAMESPACES = "SHOW NAMESPACES"
    TABLES = "SHOW TABLES"
    VIEWS = "SHOW VIEWS"
    COLUMNS = "SHOW COLUMNS"
    PROPERTIES = "SHOW TBLPROPERTIES"
    CREATE_TABLE = "SHOW CREATE TABLE"
    DESCRIBE = "DESCRIBE"
    EXTENDED = "DESCRIBE EXTENDED"
    HISTORY = "DESCRIBE HISTORY"
    NAMESPACE = "DESCRIBE NAMESPACE"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogStatement:
    """A statement about a table, about what is in a namespace or catalog, or about a namespace."""

    question: CatalogQuestion
    table: NamedTable | None = None
    namespace: tuple[str, ...] | None = None
    """The name after IN or NAMESPACE; None without one."""
    pattern: str | None = None
    """Only names that match: `*` and `%` stand for any characters, `|` separates alternatives."""
    item: str | None = None
    """The one column or property that the statement asks for."""

    @property
    def tables(self) -> tuple[NamedTable, ...]:
        """The table that the statement is about."""
        return () if self.table is None else (self.table,)


_LISTS = {
    "CATALOGS": CatalogQuestion.CATALOGS,
    "DATABASES": CatalogQuestion.NAMESPACES,
    "NAMESPACES": CatalogQuestion.NAMESPACES,
    "SCHEMAS": CatalogQuestion.NAMESPACES,
    "TABLES": CatalogQuestion.TABLES,
    "VIEWS": CatalogQuestion.VIEWS,
}
_NAMESPACE_WORDS = ("DATABASE", "NAMESPACE", "SCHEMA")
_SHOWN = "SHOW lists TABLES, VIEWS, NAMESPACES, CATALOGS, COLUMNS, TBLPROPERTIES and CREATE TABLE."
_INSTEAD = {
    "FUNCTIONS": "The editor completes the names of functions; docs/sql.md says which there are.",
    "PARTITIONS": "Run SELECT DISTINCT over the columns of the partitioning: DESCRIBE names them.",
    "GRANT": "`firn whoami` tells what you may do.",
    "GRANTS": "`firn whoami` tells what you may do.",
}


def parse_catalog_statement(text: str) -> CatalogStatement | None:
    """The statement of a text; None if it is neither SHOW nor DESCRIBE. Invalid if it is one that nobody answers."""
    words = _Words(text[: MOST_CHARACTERS + 1])
    if words.accept("SHOW"):
        statement = _parse_show(words)
    elif words.accept("DESCRIBE", "DESC"):
        statement = _parse_describe(words)
    else:
        return None
    words.end()
    return statement


def _parse_show(words: _Words) -> CatalogStatement:
    if (kind := words.accept(*_LISTS)) is not None:
        namespace = None
        if kind != "CATALOGS" and words.accept("IN", "FROM"):
            namespace = words.take_name("a namespace")
        return CatalogStatement(question=_LISTS[kind], namespace=namespace, pattern=words.take_pattern())
    if words.accept("COLUMNS"):
        words.expect("IN", "FROM")
        table = words.take_name("a table")
        if words.accept("IN", "FROM"):
            table = (*words.take_name("a namespace"), *table)
        return CatalogStatement(question=CatalogQuestion.COLUMNS, table=NamedTable(table))
    if words.accept("TBLPROPERTIES"):
        table = words.take_name("a table")
        return CatalogStatement(
            question=CatalogQuestion.PROPERTIES, table=NamedTable(table), item=words.take_key_in_brackets()
        )
    if words.accept("CREATE"):
        words.expect("TABLE")
        return CatalogStatement(
            question=CatalogQuestion.CREATE_TABLE, table=NamedTable(words.take_name("a table")), item=None
        )
    word = words.peek_word() or "alone"
    raise Invalid(f"SHOW {word} is not supported", hint=f"{_SHOWN} {_INSTEAD.get(word, '')}".strip())


def _parse_describe(words: _Words) -> CatalogStatement:
    if words.accept_before_name(*_NAMESPACE_WORDS):
        words.accept_before_name("EXTENDED")
        return CatalogStatement(question=CatalogQuestion.NAMESPACE, namespace=words.take_name("a namespace"))
    if words.accept_before_name("HISTORY"):
        return CatalogStatement(question=CatalogQuestion.HISTORY, table=NamedTable(words.take_name("a table")))
    if words.accept_before_more("QUERY", "SELECT", "WITH", "VALUES", "FUNCTION"):
        raise Invalid(
            "DESCRIBE describes a table or a namespace",
            hint="Run the SELECT with LIMIT 0 to see the types of its columns, or EXPLAIN to see its plan.",
        )
    words.accept_before_name("TABLE")
    is_extended = words.accept_before_name("EXTENDED", "FORMATTED") is not None
    table = words.take_name("a table")
    item = words.take_name("a column")[-1] if words.has_name() else None
    question = CatalogQuestion.EXTENDED if is_extended and item is None else CatalogQuestion.DESCRIBE
    return CatalogStatement(question=question, table=NamedTable(table), item=item)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str


class _Words:
    """The words of a statement, from the first one on. Words that no statement has end the reading with Invalid."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokenize(text)
        self._ahead: list[_Token | None] = []

    def _peek(self, position: int = 0) -> _Token | None:
        while len(self._ahead) <= position:
            self._ahead.append(next(self._tokens, None))
        return self._ahead[position]

    def _pop(self) -> _Token | None:
        token = self._peek()
        del self._ahead[0]
        return token

    def peek_word(self) -> str | None:
        """The next word in upper case, if it is no quoted name."""
        token = self._peek()
        return token.text.upper()[:40] if token is not None and token.kind == "word" else None

    def accept(self, *words: str) -> str | None:
        """The next word in upper case if it is one of these, which is then read."""
        word = self.peek_word()
        if word not in words:
            return None
        self._pop()
        return word

    def accept_before_name(self, *words: str) -> str | None:
        """As `accept`, if a name follows: a table may have the name of a word."""
        following = self._peek(1)
        is_name = following is not None and following.kind in ("word", "backtick", "double")
        return self.accept(*words) if is_name else None

    def accept_before_more(self, *words: str) -> str | None:
        """As `accept`, if more follows than the rest of a name."""
        following = self._peek(1)
        return self.accept(*words) if following is not None and following.text not in (".", ";") else None

    def expect(self, *words: str) -> None:
        """Read one of these words; Invalid for any other."""
        if self.accept(*words) is None:
            raise self._refuse(" or ".join(words))

    def has_name(self) -> bool:
        """Whether a name comes next."""
        token = self._peek()
        return token is not None and token.kind in ("word", "backtick", "double")

    def take_name(self, what: str) -> tuple[str, ...]:
        """The parts of a name."""
        parts = [self._take_part(what)]
        while (token := self._peek()) is not None and token.text == "." and token.kind == "sign":
            self._pop()
            parts.append(self._take_part(what))
        if len(parts) > MOST_PARTS:
            raise Invalid(f"the name of {what} has {len(parts)} parts")
        return tuple(parts)

    def _take_part(self, what: str) -> str:
        if not self.has_name():
            raise self._refuse(f"the name of {what}")
        token = self._pop()
        assert token is not None  # has_name has seen it
        quote = token.text[0]
        name = token.text if token.kind == "word" else token.text[1:-1].replace(quote * 2, quote)
        if not name:
            raise Invalid("a name in the statement is empty")
        return name

    def take_pattern(self) -> str | None:
        """The text after LIKE, which may be left out; None at the end of the statement."""
        has_like = self.accept("LIKE", "ILIKE") is not None
        token = self._peek()
        if token is not None and token.kind in ("single", "double"):
            return self._take_text()
        if has_like:
            raise self._refuse("a pattern in quotes")
        return None

    def _take_text(self) -> str:
        token = self._pop()
        assert token is not None  # the caller has seen it
        inner = token.text[1:-1]
        if token.kind == "double":
            return inner.replace('""', '"')
        return _ESCAPE.sub(lambda match: match[1] or "'", inner)

    def take_key_in_brackets(self) -> str | None:
        """The key of a property in brackets, in quotes or as words with dots; None without brackets."""
        token = self._peek()
        if token is None or token.text != "(":
            return None
        self._pop()
        token = self._peek()
        is_text = token is not None and token.kind in ("single", "double")
        key = self._take_text() if is_text else ".".join(self.take_name("a property"))
        if (closing := self._pop()) is None or closing.text != ")":
            raise Invalid("a closing bracket is missing after the property")
        return key

    def end(self) -> None:
        """Invalid unless the statement ends here; one semicolon may follow."""
        if (token := self._peek()) is not None and token.text == ";":
            self._pop()
        if (token := self._peek()) is not None:
            raise Invalid(
                f"the statement cannot be parsed near {token.text[:40]!r}", hint="Run one statement at a time."
            )

    def _refuse(self, expected: str) -> Invalid:
        token = self._peek()
        near = "at its end" if token is None else f"near {token.text[:40]!r}"
        return Invalid(f"the statement cannot be parsed {near}: it needs {expected} there")


def _tokenize(text: str) -> Iterator[_Token]:
    """The words of a text, one after the other: a statement that is not for the catalog is read no further."""
    count = 0
    for match in _TOKEN.finditer(text):
        if match.lastgroup != "blank":
            count += 1
            if count > MOST_WORDS:
                raise Invalid(f"the statement has more than {MOST_WORDS} words")
            yield _Token(match.lastgroup or "", match[0])


def matches(pattern: str, name: str) -> bool:
    """Whether a name matches a pattern of SHOW, upper and lower case alike. Takes no longer than pattern and name."""
    folded = name.casefold()
    return any(_matches_one(part.strip().casefold().replace("%", "*"), folded) for part in pattern.split("|"))


def _matches_one(pattern: str, name: str) -> bool:
    first, *rest = pattern.split("*")
    if not rest:
        return name == first
    *middle, last = rest
    if not name.startswith(first) or len(name) < len(first) + len(last) or not name.endswith(last):
        return False
    position, end = len(first), len(name) - len(last)
    for piece in middle:
        start = name.find(piece, position, end)
        if start < 0:
            return False
        position = start + len(piece)
    return True
