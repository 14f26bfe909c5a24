"""`AUTO CDC INTO t FROM STREAM s KEYS (k) SEQUENCE BY c`: the row of each key with the highest sequence, as a query.

A table of these rows is a keyed table that Firn keeps incrementally. It equals what AUTO CDC makes as long as the
source keeps its rows: a row that leaves the source leaves the table.
"""

from __future__ import annotations

from sqlglot import exp

from firn.pipelines.errors import InvalidDefinition
from firn.pipelines.parsing import parse_query, set_place, start_of
from firn.pipelines.token_reader import TokenReader, place_of
from firn.protocol.names import quote_name

_PLACE = "_place"
_ENDS = ("APPLY", "SEQUENCE", "COLUMNS", "STORED", "TRACK", "IGNORE", "")


def read_changes_flow(reader: TokenReader) -> tuple[tuple[str, ...], tuple[str, ...], exp.Query]:
    """The target, its key and the query, from behind `AUTO CDC`.

    Raises InvalidDefinition for what is not understood, and for what has no exact query.
    """
    start = place_of(reader.peek("INTO"))
    if reader.is_at("ONCE"):
        reader.refuse("AUTO CDC ONCE reads the source one time", hint="write a materialized view of the source")
    reader.require("INTO")
    target = reader.read_name()
    reader.require("FROM")
    in_parentheses = reader.take("STREAM") and reader.take("(")
    source = reader.read_name()
    if in_parentheses:
        reader.require(")")
    reader.require("KEYS")
    key = reader.read_identifiers()
    deletes, sequence, columns = _read_clauses(reader)
    names = ", ".join(map(quote_name, key))
    condition = f" AND NOT coalesce(({deletes}), false)" if deletes else ""
    # No QUALIFY: sqlglot would give its column to `*` when it writes the query for Spark.
    text = f"""SELECT {columns} FROM (
  SELECT *, row_number() OVER (PARTITION BY {names} ORDER BY {sequence} DESC) AS {_PLACE}
  FROM {".".join(map(quote_name, source))}
) AS latest WHERE {_PLACE} = 1{condition}"""  # noqa: S608 -- the tree is checked
    query = parse_query(text)
    for node in query.walk():
        if start_of(node) is not None:
            set_place(node, start)
    return target, tuple(name.lower() for name in key), query


def _read_clauses(reader: TokenReader) -> tuple[str, str, str]:
    """The condition of deletes, the sequence, and the columns, as SQL."""
    deletes, sequence, columns = "", "", f"* EXCEPT ({_PLACE})"
    while not reader.is_at_end:
        if reader.take("APPLY", "AS", "DELETE", "WHEN"):
            deletes = _read_expression(reader)
        elif reader.take("SEQUENCE", "BY"):
            sequence = _read_expression(reader)
        elif reader.take("COLUMNS"):
            columns = _read_columns(reader)
        elif reader.take("STORED", "AS"):
            _read_type(reader)
        else:
            _refuse_clause(reader)
    if not sequence:
        reader.refuse("SEQUENCE BY is missing")
    return deletes, sequence, columns


def _read_expression(reader: TokenReader) -> str:
    first = reader.peek("an expression")
    depth = 0
    while not reader.is_at_end and (depth or reader.word() not in _ENDS[:-1]):
        depth += (reader.word() == "(") - (reader.word() == ")")
        reader.position += 1
    text = reader.text_since(first)
    try:
        value = parse_query(f"SELECT ({text}\n) AS c").selects[0].unalias()
        is_expression = isinstance(value, exp.Paren) and value.find(exp.Alias) is None
    except InvalidDefinition:
        is_expression = False
    if not is_expression:
        reader.refuse(f"{text[:80]!r} is no expression", first)
    return text


def _read_columns(reader: TokenReader) -> str:
    if reader.take("*"):
        reader.require("EXCEPT")
        return f"* EXCEPT ({', '.join([_PLACE, *map(quote_name, reader.read_identifiers())])})"
    return ", ".join(map(quote_name, reader.read_identifiers()))


def _read_type(reader: TokenReader) -> None:
    reader.require("SCD", "TYPE")
    number = reader.next_token("1")
    if number.text != "1":
        hint = "keep the changes in the source, and write a query of their spans"
        reader.refuse("SCD TYPE 2 has a row for each version, which no key of AUTO CDC has", number, hint=hint)


def _refuse_clause(reader: TokenReader) -> None:
    word = reader.word()
    reasons = {
        "IGNORE": "IGNORE NULL UPDATES mixes several rows of a key into one",
        "APPLY": "APPLY AS TRUNCATE WHEN makes one row decide about all others",
        "TRACK": "TRACK HISTORY is for SCD TYPE 2",
    }
    if word in reasons:
        reader.refuse(f"{reasons[word]}: Firn has no exact query for it", hint="write a materialized view")
    reader.refuse(f"{word} is not understood here: APPLY AS DELETE WHEN, SEQUENCE BY, COLUMNS or STORED AS may follow")
