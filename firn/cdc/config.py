"""The configuration of `firn cdc`: which topics, which tables of the source, and where their rows go."""

from __future__ import annotations

import re
from pathlib import Path

from firn.protocol.avro.wire_format import DEBEZIUM_AVRO
from firn.protocol.cdc.routing import CdcConfig, TableRule, check_template, find_contradiction
from firn.protocol.envelope_readers import CDC_FORMATS, UNKNOWN_SCHEMAS
from firn.yaml_reading import Section, read_yaml

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
_OWN_PROPERTIES = (
    "firn.log.topic",
    "firn.log.connection",
    "firn.log.brokers",
    "firn.log.format",
    "firn.log.start",
    "firn.log.deletes",
    "firn.log.truncates",
    "firn.log.schema",
    "firn.log.source-tables",
    "firn.log.source-column",
    "firn.partial",
)


def read_config(path: Path) -> CdcConfig:
    """Read a file. Raises Invalid with file and line for the first mistake."""
    file = read_yaml(path, extra="cdc", page="docs/cdc.md")
    name = file.require("name")
    if _NAME.fullmatch(name) is None:
        raise file.field_error("name", f"{name[:80]!r} is no name: use up to 40 letters, digits, - and _")
    connection, brokers = file.text("connection"), file.texts("brokers")
    if (connection is None) == (not brokers):
        raise file.error("the file needs either connection or brokers")
    record_format = file.choice("format", CDC_FORMATS, "")
    if record_format == DEBEZIUM_AVRO and connection is None:
        raise file.error(
            f"format {record_format} needs a connection: it names the schema registry",
            hint="an administrator creates it: `firn connection create kafka NAME --registry URL`",
        )
    config = CdcConfig(
        name=name,
        format=record_format,
        connection=connection,
        brokers=brokers,
        topics=_require_topics(file),
        start=file.choice("start", ("earliest", "latest"), "earliest"),
        deletes=file.choice("deletes", ("apply", "ignore", "stop"), "apply"),
        truncates=file.choice("truncates", ("stop", "ignore", "empty"), "stop"),
        schema=file.choice("schema", ("add", "ignore"), "add"),
        unknown_schemas=file.choice("unknown_schemas", UNKNOWN_SCHEMAS, "stop"),
        tables=_read_rules(file),
    )
    file.finish()
    return config


def _require_topics(file: Section) -> tuple[re.Pattern[str], ...]:
    topics = file.texts("topics")
    if not topics:
        raise file.error("the file needs topics", hint="regular expressions that match whole names of topics")
    return tuple(_compile(file, "topics", text) for text in topics)


def _read_rules(file: Section) -> tuple[TableRule, ...]:
    rules = tuple(_read_rule(section) for section in file.sections("tables"))
    if not rules:
        raise file.error("the file needs tables", hint="rules with the fields include and table")
    return rules


def _read_rule(section: Section) -> TableRule:
    include, table = _compile(section, "include", section.require("include")), section.require("table")
    exclude = section.text("exclude")
    properties = section.pairs("properties")
    for key in properties:
        if key in _OWN_PROPERTIES:
            raise section.field_error("properties", f"{key} comes from other fields of the file")
    _check_template(section, include, table)
    rule = TableRule(
        include=include,
        exclude=None if exclude is None else _compile(section, "exclude", exclude),
        table=table,
        primary_key=section.texts("primary_key"),
        sequence_field=section.text("sequence_field"),
        partition_by=section.texts("partition_by"),
        is_partial=section.flag("partial"),
        source_column=section.text("source_column"),
        columns=section.pairs("columns"),
        properties=properties,
        line=section.line,
    )
    section.finish()
    contradiction = find_contradiction(rule)
    if contradiction is not None:
        raise section.field_error(*contradiction, hint="docs/keyed-tables.md says why")
    return rule


def _check_template(section: Section, include: re.Pattern[str], table: str) -> None:
    try:
        check_template(include, table)
    except ValueError as error:
        raise section.field_error("table", f"{table!r} does not fit include: {error}") from None


def _compile(section: Section, name: str, text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise section.field_error(name, f"{name} {text[:80]!r} is no regular expression: {error}") from None
