"""Writes the file of `firn cdc` for a configuration: what `firn cdc validate` reads from it is that configuration."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from firn.protocol.cdc.routing import CdcConfig, TableRule

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*(\([0-9]+,[0-9]+\))?")
_WORDS = frozenset({"null", "true", "false", "yes", "no", "on", "off", "y", "n"})
"""YAML gives these another meaning than their text."""


def write_config(config: CdcConfig) -> str:
    """The YAML text of a configuration. ValueError for a text that has control characters or line breaks."""
    return "".join(f"{line}\n" for line in _list_lines(config))


def _list_lines(config: CdcConfig) -> Iterator[str]:
    yield f"name: {_quote(config.name)}"
    yield f"format: {_quote(config.format)}"
    if config.connection is not None:
        yield f"connection: {_quote(config.connection)}"
    else:
        yield f"brokers: {_quote_list(config.brokers)}"
    yield from _list_block("", "topics", [pattern.pattern for pattern in config.topics])
    for name, value, default in (
        ("start", config.start, "earliest"),
        ("deletes", config.deletes, "apply"),
        ("truncates", config.truncates, "stop"),
        ("schema", config.schema, "add"),
        ("unknown_schemas", config.unknown_schemas, "stop"),
    ):
        if value != default:
            yield f"{name}: {value}"
    yield "tables:"
    for rule in config.tables:
        for number, line in enumerate(_list_rule(rule)):
            yield f"  {'- ' if number == 0 else '  '}{line}"


def _list_rule(rule: TableRule) -> Iterator[str]:
    yield f"include: {_quote(rule.include.pattern)}"
    if rule.exclude is not None:
        yield f"exclude: {_quote(rule.exclude.pattern)}"
    yield f"table: {_quote(rule.table)}"
    if rule.primary_key:
        yield f"primary_key: {_quote_list(rule.primary_key)}"
    for name, value in (("sequence_field", rule.sequence_field), ("source_column", rule.source_column)):
        if value is not None:
            yield f"{name}: {_quote(value)}"
    if rule.partition_by:
        yield f"partition_by: {_quote_list(rule.partition_by)}"
    if rule.is_partial:
        yield "partial: true"
    yield from _list_pairs("columns", rule.columns)
    yield from _list_pairs("properties", rule.properties)


def _list_pairs(name: str, pairs: Mapping[str, str]) -> Iterator[str]:
    if pairs:
        yield f"{name}:"
        yield from (f"  {_quote(key)}: {_quote(value)}" for key, value in pairs.items())


def _list_block(indent: str, name: str, texts: Sequence[str]) -> Iterator[str]:
    yield f"{indent}{name}:"
    yield from (f"{indent}  - {_quote(text)}" for text in texts)


def _quote_list(texts: Sequence[str]) -> str:
    return "[" + ", ".join(f"'{_escape(text)}'" for text in texts) + "]"


def _quote(text: str) -> str:
    """The text as it stands where YAML reads it so, or between single quotes."""
    if _PLAIN.fullmatch(text) is not None and text.lower() not in _WORDS:
        return text
    return f"'{_escape(text)}'"


def _escape(text: str) -> str:
    if not text.isprintable():
        raise ValueError(f"{text!r} has control characters or line breaks")
    return text.replace("'", "''")
