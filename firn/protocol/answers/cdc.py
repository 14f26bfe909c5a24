"""Answers about change data capture: topics of a connection, their records, and the plan of a configuration."""

from __future__ import annotations

from datetime import datetime

from firn.protocol.base import Out


class TopicsOut(Out):
    """Topics by name; `more` others match as well."""

    topics: list[str]
    more: int


class CdcRecordOut(Out):
    """A record of a topic, and what it tells. Long texts are cut; `bytes` is the size of key and value.

    `source` is the table of the source, and `row` the first change of the record: values as text, by column.
    `problem` says why the record is no change.
    """

    partition: int
    offset: int
    timestamp: datetime | None
    bytes: int
    key: str | None
    value: str | None
    source: str | None
    kind: str | None
    op: str | None
    row: dict[str, str | None] | None
    problem: str | None


class CdcSampleOut(Out):
    """Some of the oldest and newest records of a topic, read as `format`: the given one, or the one that fits best.

    `format` is null if the records fit none.
    """

    topic: str
    format: str | None
    records: list[CdcRecordOut]


class CdcTablePlanOut(Out):
    """One table of the lake: `action` is `create`, `change`, `none`, or `stop` with a `problem`.

    `columns` are all columns of a new table, and the missing ones of another. `lacks_values` says that updates leave
    out values, so the table needs `partial`.
    """

    table: str
    action: str
    sources: list[str]
    new_sources: list[str]
    primary_key: list[str]
    columns: dict[str, str]
    problem: str | None
    lacks_values: bool


class CdcTopicPlanOut(Out):
    """One topic: its tables, the tables of the source that no rule takes, and its bad records, counted by reason."""

    topic: str
    records: int
    tables: list[CdcTablePlanOut]
    left_out: list[str]
    bad: dict[str, int]


class CdcPlanOut(Out):
    """What `firn cdc run` would do, by a sample of each topic; `more_topics` match but are not in the plan.

    `file` is the text of the sync file.
    """

    file: str
    topics: list[CdcTopicPlanOut]
    more_topics: int
