"""Reads OpenLineage events that others send: https://openlineage.io/docs/spec/object-model.

Nothing in an event is trusted. Texts and lists have limits; the reader leaves out what exceeds them, and says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from catalog.errors import Invalid
from catalog.lineage.node import LONGEST_NAME

Json = Mapping[str, Any]

MOST_DATASETS = 200
"""Inputs, and outputs, of one event."""
MOST_COLUMNS = 2_000
MOST_PAIRS = 10_000
"""Pairs of columns in one event."""
MOST_SYMLINKS = 10
LONGEST_COLUMN = 255
AHEAD = timedelta(minutes=5)
"""How far an event's clock may be ahead."""
_WITHOUT_EDGES = frozenset({"FAIL", "ABORT"})


@dataclass(frozen=True, slots=True)
class DatasetName:
    """A dataset as a producer names it."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Dataset:
    """A dataset with its other names. `columns` has the columns that each of its columns comes from."""

    name: DatasetName
    symlinks: Sequence[DatasetName] = ()
    columns: Mapping[str, Sequence[tuple[DatasetName, str]]] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LineageEvent:
    """An event of a run, or of a job without a run. An event of a dataset has no job."""

    at: datetime
    job: DatasetName | None
    producer: str
    inputs: Sequence[Dataset] = ()
    outputs: Sequence[Dataset] = ()
    left_out: Sequence[str] = ()
    """Reasons for what the reader has left out."""


@dataclass(slots=True)
class _Reader:
    left_out: list[str] = field(default_factory=list)
    pairs: int = 0

    def read(self, event: Json, now: datetime) -> LineageEvent:
        at = _read_time(event.get("eventTime"), now)
        producer = _read_text(event.get("producer") or "unknown", "producer")
        if "job" not in event and isinstance(event.get("dataset"), Mapping):
            return LineageEvent(at=at, job=None, producer=producer, left_out=["an event of a dataset has no edges"])
        job = _read_name(event.get("job"), "job")
        kind = str(event.get("eventType") or "OTHER").upper()
        if kind in _WITHOUT_EDGES:
            return LineageEvent(at=at, job=job, producer=producer, left_out=[f"a run that ends as {kind} has no edges"])
        return LineageEvent(
            at=at,
            job=job,
            producer=producer,
            inputs=list(self._read_datasets(event.get("inputs"), "inputs")),
            outputs=list(self._read_datasets(event.get("outputs"), "outputs")),
            left_out=self.left_out,
        )

    def _read_datasets(self, value: object, where: str) -> Iterator[Dataset]:
        items = [] if value is None else value
        if not isinstance(items, list):
            raise Invalid(f"{where}: expected a list of datasets")
        if len(items) > MOST_DATASETS:
            self.left_out.append(f"{len(items) - MOST_DATASETS:,} of {len(items):,} {where}: {MOST_DATASETS} are kept")
        for item in items[:MOST_DATASETS]:
            name = _read_name(item, where)
            facets = item.get("facets")
            facets = facets if isinstance(facets, Mapping) else {}
            yield Dataset(
                name=name,
                symlinks=list(_read_symlinks(facets.get("symlinks"))),
                columns=self._read_columns(facets.get("columnLineage"), where) if where == "outputs" else None,
            )

    def _read_columns(self, facet: object, where: str) -> Mapping[str, Sequence[tuple[DatasetName, str]]] | None:
        fields = facet.get("fields") if isinstance(facet, Mapping) else None
        if not isinstance(fields, Mapping) or not fields:
            return None
        columns: dict[str, list[tuple[DatasetName, str]]] = {}
        for column, entry in list(fields.items())[:MOST_COLUMNS]:
            sources = entry.get("inputFields") if isinstance(entry, Mapping) else None
            if not _is_column(column) or not isinstance(sources, list):
                continue
            columns[column] = list(self._read_sources(sources))
        if len(fields) > MOST_COLUMNS or self.pairs >= MOST_PAIRS:
            self.left_out.append(f"columns of {where}: {MOST_COLUMNS:,} columns and {MOST_PAIRS:,} pairs are kept")
        return columns

    def _read_sources(self, sources: Sequence[object]) -> Iterator[tuple[DatasetName, str]]:
        for source in sources[: MOST_PAIRS - self.pairs]:
            column = source.get("field") if isinstance(source, Mapping) else None
            if column is not None and _is_column(column):
                self.pairs += 1
                yield _read_name(source, "inputFields"), column


def read_event(event: object, now: datetime) -> LineageEvent:
    """Read an event; raises Invalid if it is none, and leaves out what exceeds the limits."""
    if not isinstance(event, Mapping):
        raise Invalid("an event is a JSON object", hint="send one event a request, or a list to /api/v1/lineage/batch")
    return _Reader().read(event, now)


def _read_time(value: object, now: datetime) -> datetime:
    """The event's time, as it stands there, but not after now."""
    try:
        at = datetime.fromisoformat(str(value))
    except ValueError as error:
        raise Invalid("eventTime: expected a time in ISO 8601") from error
    at = at if at.tzinfo is not None else at.replace(tzinfo=now.tzinfo)
    if at > now + AHEAD:
        raise Invalid(f"eventTime: {at.isoformat()} is in the future", hint="check the sender's clock")
    return min(at, now)


def _read_name(value: object, where: str) -> DatasetName:
    if not isinstance(value, Mapping):
        raise Invalid(f"{where}: expected an object with a namespace and a name")
    return DatasetName(
        _read_text(value.get("namespace"), f"{where}.namespace"), _read_text(value.get("name"), f"{where}.name")
    )


def _read_text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise Invalid(f"{where}: expected a text")
    if len(value) > LONGEST_NAME:
        raise Invalid(f"{where}: it has {len(value):,} characters; {LONGEST_NAME:,} are allowed")
    if not _is_clean(value):
        raise Invalid(f"{where}: control characters are not allowed")
    return value


def _is_column(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= LONGEST_COLUMN and _is_clean(value)


def _is_clean(text: str) -> bool:
    return text.isprintable() or not any(ord(char) < ord(" ") or 0xD800 <= ord(char) <= 0xDFFF for char in text)


def _read_symlinks(facet: object) -> Iterator[DatasetName]:
    identifiers = facet.get("identifiers") if isinstance(facet, Mapping) else None
    for item in identifiers[:MOST_SYMLINKS] if isinstance(identifiers, list) else ():
        yield _read_name(item, "symlinks")
