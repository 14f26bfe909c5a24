"""What records of change data capture tell about the source: its tables, their keys, columns and types."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from firn.protocol.cdc.debezium import Reader
from firn.protocol.cdc.envelope import NOT_GIVEN, BadRecord, Envelope, Kind

MOST_TABLES, MOST_COLUMNS = 10_000, 5_000
"""Records beyond are counted as bad: a broken producer could fill the memory."""
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_LARGEST_PRECISION = 38
_ORDER = ("int", "long", "double")


@dataclass
class SourceFacts:
    """A table of the source, as its records show it."""

    keys: tuple[str, ...] = ()
    types: dict[str, str] = field(default_factory=dict)
    records: int = 0
    truncates: int = 0
    lacks_values: bool = False
    """Whether updates leave out values: the table needs `firn.partial`."""

    def merge(self, other: SourceFacts) -> None:
        """Add what other records have shown. Types that differ become the narrowest one that has both."""
        self.keys = other.keys or self.keys
        self.records += other.records
        self.truncates += other.truncates
        self.lacks_values = self.lacks_values or other.lacks_values
        for name, type_ in other.types.items():
            known = self.types.get(name)
            self.types[name] = type_ if known is None else widen_type(known, type_)


@dataclass
class Observation:
    """All tables in some records of one topic, and how many records are bad for which reason."""

    tables: dict[str, SourceFacts] = field(default_factory=dict)
    bad: Counter[str] = field(default_factory=Counter)
    records: int = 0

    def add(self, read: Reader, key: bytes | None, value: bytes | None) -> None:
        """Look at one record."""
        self.records += 1
        try:
            envelope = read(key, value)
        except BadRecord as error:
            self.bad[error.reason] += 1
            return
        if envelope.source is not None:
            self._add(envelope.source.name, envelope)

    def merge(self, other: Observation) -> None:
        """Add what other records have shown."""
        self.records += other.records
        self.bad.update(other.bad)
        for name, facts in other.tables.items():
            self.tables.setdefault(name, SourceFacts()).merge(facts)

    def to_json(self) -> dict[str, Any]:
        """A document that `read` takes."""
        tables = {
            name: [list(facts.keys), facts.types, facts.records, facts.truncates, facts.lacks_values]
            for name, facts in self.tables.items()
        }
        return {"tables": tables, "bad": dict(self.bad), "records": self.records}

    @classmethod
    def read(cls, document: dict[str, Any]) -> Observation:
        """The observation of a document."""
        tables = {
            name: SourceFacts(tuple(keys), types, records, truncates, lacks_values)
            for name, (keys, types, records, truncates, lacks_values) in document["tables"].items()
        }
        return cls(tables, Counter(document["bad"]), document["records"])

    def _add(self, name: str, envelope: Envelope) -> None:
        known = self.tables.get(name)
        if known is None and len(self.tables) >= MOST_TABLES:
            self.bad["the topic has too many tables"] += 1
            return
        facts = self.tables.setdefault(name, SourceFacts())
        if len(facts.types) + len(envelope.types) > MOST_COLUMNS and envelope.types.keys() - facts.types.keys():
            self.bad["the table has too many columns"] += 1
            return
        facts.merge(_describe(envelope))


def observe(read: Reader, records: Iterable[tuple[bytes | None, bytes | None]]) -> Observation:
    """Look at keys and values of records."""
    observation = Observation()
    for key, value in records:
        observation.add(read, key, value)
    return observation


def widen_type(first: str, second: str) -> str:
    """The narrowest type that has the values of both; text if there is no other."""
    if first == second:
        return first
    if first in _ORDER and second in _ORDER:
        return max(first, second, key=_ORDER.index)
    left, right = _parse_decimal(first), _parse_decimal(second)
    if left is None or right is None:
        return "string"
    scale, digits = max(left[1], right[1]), max(left[0] - left[1], right[0] - right[1])
    return f"decimal({scale + digits},{scale})" if scale + digits <= _LARGEST_PRECISION else "string"


def _parse_decimal(type_: str) -> tuple[int, int] | None:
    match = _DECIMAL.fullmatch(type_)
    return None if match is None else (int(match[1]), int(match[2]))


def _describe(envelope: Envelope) -> SourceFacts:
    values = [value for change in envelope.changes if change.op != "D" for value in change.values.values()]
    return SourceFacts(
        keys=envelope.keys,
        types=dict(envelope.types),
        records=1,
        truncates=int(envelope.kind is Kind.TRUNCATE),
        lacks_values=NOT_GIVEN in values,
    )
