"""The routes of `firn cdc`: which topics, which tables of the source, and where their rows go."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRule:
    """Tables of the source, by a regular expression over their full names, and the table that takes their rows."""

    include: re.Pattern[str]
    exclude: re.Pattern[str] | None
    table: str
    """NAMESPACE.TABLE; `\\1` or `\\g<name>` stands for a group of `include`."""
    primary_key: Sequence[str]
    sequence_field: str | None
    partition_by: Sequence[str]
    is_partial: bool
    source_column: str | None
    columns: Mapping[str, str]
    properties: Mapping[str, str]
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CdcConfig:
    """A whole file."""

    name: str
    format: str
    connection: str | None
    brokers: Sequence[str]
    topics: Sequence[re.Pattern[str]]
    start: str
    deletes: str
    truncates: str
    schema: str
    unknown_schemas: str = "stop"
    """What an Avro record does whose schema the registry does not have: `stop` its topic, or go to the `quarantine`."""
    tables: Sequence[TableRule]

    def route(self, source: str) -> tuple[TableRule, str] | None:
        """The first rule that takes a table of the source, and the name of the table; None if none does.

        Any text may come out as a name: the plan refuses those that are no NAMESPACE.TABLE.
        """
        for rule in self.tables:
            match = rule.include.fullmatch(source)
            if match is None or (rule.exclude is not None and rule.exclude.fullmatch(source)):
                continue
            return rule, match.expand(rule.table)
        return None

    def takes_topic(self, topic: str) -> bool:
        """Whether the records of a topic belong to this configuration."""
        return any(pattern.fullmatch(topic) for pattern in self.topics)


def check_template(include: re.Pattern[str], table: str) -> None:
    """Raise ValueError for a group that `include` does not have."""
    try:
        re.sub(f"(?:{include.pattern})|\\Z", lambda match: match.expand(table), "", count=1)
    except (re.error, IndexError) as error:
        raise ValueError(str(error)) from None


def find_contradiction(rule: TableRule) -> tuple[str, str] | None:
    """The field of a rule that its other fields exclude, and why; None for a rule that can be."""
    if not rule.is_partial or not (rule.sequence_field or rule.partition_by):
        return None
    field = "sequence_field" if rule.sequence_field else "partition_by"
    return field, f"a partial table has no {field}"
