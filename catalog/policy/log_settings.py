"""The log store of a keyed table: the properties `firn.log.…`, which name a topic of Kafka and say how to read it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from typing import Any, Literal

from catalog.errors import Invalid
from catalog.keyed.spec import LOG_PREFIX, LOG_TOPIC
from catalog.policy.units import parse_at_least, parse_count, parse_flag, parse_one_of, parse_share, parse_text
from firn.protocol.avro.wire_format import AVRO_FORMATS
from firn.protocol.cdc.rows import ADD, EMPTY, IGNORE, STOP
from firn.protocol.cdc.sources import parse_sources
from firn.protocol.envelope_readers import CDC_FORMATS

CONNECTION = f"{LOG_PREFIX}connection"
BROKERS = f"{LOG_PREFIX}brokers"
FORMAT = f"{LOG_PREFIX}format"
START = f"{LOG_PREFIX}start"
EVERY_CHANGE = f"{LOG_PREFIX}every-change"
MAX_LAG = f"{LOG_PREFIX}max-lag"
MAX_BATCH_ROWS = f"{LOG_PREFIX}max-batch-rows"
MAX_TAIL_ROWS = f"{LOG_PREFIX}max-tail-rows"
DELETES = f"{LOG_PREFIX}deletes"
BAD_ROWS = f"{LOG_PREFIX}bad-rows"
MAX_BAD_SHARE = f"{LOG_PREFIX}max-bad-share"
SOURCE_TABLES = f"{LOG_PREFIX}source-tables"
SOURCE_COLUMN = f"{LOG_PREFIX}source-column"
SCHEMA = f"{LOG_PREFIX}schema"
TRUNCATES = f"{LOG_PREFIX}truncates"

FIRN_JSON, UPSERT_JSON = "firn-json", "upsert-json"
_FORMATS = tuple(dict.fromkeys((FIRN_JSON, UPSERT_JSON, *AVRO_FORMATS, *CDC_FORMATS)))
_FOR_CDC = (SOURCE_TABLES, SOURCE_COLUMN, TRUNCATES)
LogStart = Literal["earliest", "latest"] | datetime
_BOUNDS: Mapping[str, LogStart] = {"earliest": "earliest", "latest": "latest"}
_LONGEST_TIME = 40
_FIRST_TIME = datetime(1970, 1, 1, tzinfo=UTC)
"""Kafka counts milliseconds since then."""
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """How the records of a topic become changes of a keyed table."""

    topic: str
    connection: str | None
    """The name of a connection; None if the table names brokers itself."""
    brokers: str | None
    format: str
    start: LogStart
    """From where the first drain reads; a time means the first records since then."""
    every_change: bool | None
    """Whether each change of a key is kept, for readers of changes; None leaves it to the drain."""
    max_lag: timedelta
    max_batch_rows: int
    max_tail_rows: int
    deletes: str
    """`apply`, `ignore` or `stop`."""
    bad_rows: str
    """`quarantine` or `stop`."""
    max_bad_share: float
    """A drain stops at a batch with a larger share of bad records."""
    source_tables: str | None
    """Which tables of the source are this table, see firn.protocol.cdc.sources; None for all records of the topic."""
    source_column: str | None
    """The column that takes the name of the source's table; None for no such column."""
    schema: str
    """`add`, `ignore` or `stop`: what a column means that a record has and the table lacks."""
    truncates: str
    """`stop`, `ignore` or `empty`."""

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> LogSettings | None:
        """The settings of a table's properties; None without a log, Invalid for bad or missing ones."""
        named = {key: text for key, text in properties.items() if key.startswith(LOG_PREFIX)}
        if not named:
            return None
        values = {key: _DEFAULTS[key] for key in _PARSERS} | named
        parsed = {key: check_log_setting(key, text) for key, text in values.items() if text is not None}
        if LOG_TOPIC not in named:
            raise Invalid(f"{min(named)} needs {LOG_TOPIC}", hint="a table gets its topic when it is created")
        if FORMAT not in named:
            raise Invalid(f"{LOG_TOPIC} needs {FORMAT}", hint=f"one of {', '.join(_FORMATS)}")
        if (CONNECTION in named) == (BROKERS in named):
            raise Invalid(
                f"{LOG_TOPIC} needs either {CONNECTION} or {BROKERS}",
                hint="an administrator creates connections: `firn connection create kafka`",
            )
        if named[FORMAT] in AVRO_FORMATS and CONNECTION not in named:
            raise Invalid(
                f"{FORMAT}={named[FORMAT]} needs {CONNECTION}: a connection names the schema registry",
                hint="an administrator creates it: `firn connection create kafka NAME --registry URL`",
            )
        misplaced = sorted(key for key in _FOR_CDC if key in named)
        if misplaced and named[FORMAT] not in CDC_FORMATS:
            raise Invalid(f"{misplaced[0]} is for change data capture", hint=f"formats {', '.join(CDC_FORMATS)}")
        _check_truncates(named)
        arguments: dict[str, Any] = {_FIELDS[key]: parsed.get(key) for key in _PARSERS}
        return cls(**arguments)


def _check_truncates(named: Mapping[str, str]) -> None:
    """Raise Invalid if a truncate of one source's table would delete the rows of others."""
    sources = named.get(SOURCE_TABLES, "*")
    is_shared = "," in sources or "*" in sources
    if named.get(TRUNCATES) == EMPTY and is_shared and SOURCE_COLUMN not in named:
        raise Invalid(
            f"{TRUNCATES}={EMPTY} needs {SOURCE_COLUMN}, or the name of one table in {SOURCE_TABLES}",
            hint="otherwise a truncate of one table of the source would delete the rows of others",
        )


def check_no_log(properties: Mapping[str, str]) -> None:
    """Raise Invalid if the properties of a table without primary key name a log."""
    named = sorted(key for key in properties if key.startswith(LOG_PREFIX))
    if named:
        raise Invalid(f"{named[0]} is for keyed tables only", hint="give the table a primary key: firn.primary-key")


def check_log_setting(key: str, text: str) -> Any:
    """The parsed value of one property; Invalid for an unknown key, or for a value that it cannot have."""
    if key not in _PARSERS:
        nearest = get_close_matches(key, sorted(_PARSERS), n=1)
        hint = f"did you mean {nearest[0]}?" if nearest else f"known are {', '.join(sorted(_PARSERS))}"
        raise Invalid(f"unknown property {key}", hint=hint)
    try:
        return _PARSERS[key](text)
    except Invalid as error:
        raise Invalid(f"{key}: {error.message}", hint=error.hint) from error


def _parse_topic(text: str) -> str:
    if _TOPIC.fullmatch(text) is None or text in (".", ".."):
        raise Invalid(f"{text[:80]!r} is no topic", hint="a topic has 1 to 249 letters, digits, dots, hyphens and _")
    return text


def _parse_start(text: str) -> LogStart:
    if text in _BOUNDS:
        return _BOUNDS[text]
    try:
        at = datetime.fromisoformat(text) if len(text) <= _LONGEST_TIME else None
        if at is not None and at.tzinfo is not None and at.astimezone(UTC) >= _FIRST_TIME:
            return at.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise Invalid(
        f"{text[:80]!r} is not earliest, latest or a time with its zone", hint="write a time as 2026-11-21T09:30:00Z"
    )


def _parse_source_tables(text: str) -> str:
    try:
        parse_sources(text)
    except ValueError as error:
        raise Invalid(
            str(error), hint="write names such as shop.orders or shop_*.orders, separated by commas"
        ) from None
    return text


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    LOG_TOPIC: _parse_topic,
    CONNECTION: parse_text,
    BROKERS: parse_text,
    FORMAT: parse_one_of(*_FORMATS),
    START: _parse_start,
    EVERY_CHANGE: parse_flag,
    MAX_LAG: parse_at_least("1 s"),
    MAX_BATCH_ROWS: parse_count,
    MAX_TAIL_ROWS: parse_count,
    DELETES: parse_one_of("apply", "ignore", "stop"),
    BAD_ROWS: parse_one_of("quarantine", "stop"),
    MAX_BAD_SHARE: parse_share,
    SOURCE_TABLES: _parse_source_tables,
    SOURCE_COLUMN: parse_text,
    SCHEMA: parse_one_of(ADD, IGNORE, STOP),
    TRUNCATES: parse_one_of("stop", "ignore", EMPTY),
}
_FIELDS = {key: key.removeprefix(LOG_PREFIX).replace("-", "_") for key in _PARSERS}
_DEFAULTS: Mapping[str, str | None] = {
    **dict.fromkeys(_PARSERS),
    START: "earliest",
    MAX_LAG: "30 s",
    MAX_BATCH_ROWS: "2000000",
    MAX_TAIL_ROWS: "5000000",
    DELETES: "apply",
    BAD_ROWS: "quarantine",
    MAX_BAD_SHARE: "0.1",
    SCHEMA: ADD,
    TRUNCATES: "stop",
}
