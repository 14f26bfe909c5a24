"""Resets of a log: what a move of its position leaves out or brings again (docs/protocols.md, rule 6.15)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from catalog.commits.positions import NO_POSITION, KafkaPosition, show_position
from catalog.errors import Conflict, Invalid
from catalog.kafka.cluster import Topic
from catalog.kafka.log_state import LogProblemKind, LogState

Bound = Literal["earliest", "latest"]
ResetTarget = Bound | datetime | KafkaPosition
"""Where a user wants the log to be: at an end of the topic, at its first records since a time, or at offsets."""
_BOUNDS: Mapping[str, Bound] = {"earliest": "earliest", "latest": "latest"}
_LONGEST_TIME = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionReset:
    """The reset of one partition. Counts are maxima, because some offsets have no records."""

    partition: int
    start: int | None
    """The next offset before the reset; None if it is one of another topic."""
    end: int
    left_out: int
    """The records that the topic has, or had, and that no drain will bring."""
    repeated: int
    """The records that a drain brings again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogReset:
    """A move of a table's position, and what it does to the table."""

    start: str
    end: str
    partitions: Sequence[PartitionReset]
    warnings: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOrder:
    """What of a table decides whether records that come again do harm."""

    sequence_field: str | None
    summed_columns: Sequence[str]
    is_insert_only: bool = False


def parse_reset_target(text: str) -> ResetTarget:
    """The target of `earliest`, `latest`, a time with its zone, or `topic:0:123,1:456`; Invalid for another text."""
    if text in _BOUNDS:
        return _BOUNDS[text]
    at = _parse_time(text)  # first, because a time without zone has the form of a position
    if at is not None and at.tzinfo is not None:
        with suppress(OverflowError):
            return at.astimezone(UTC)
    position = KafkaPosition.parse(text) if at is None else None
    if position is None:
        raise Invalid(
            f"{show_position(text)} is no target of a reset",
            hint="write earliest, latest, a time with its zone as 2026-11-21T09:30:00Z, or offsets as orders:0:1,1:4",
        )
    return position


def _parse_time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if len(text) <= _LONGEST_TIME else None
    except ValueError:
        return None


def plan_reset(state: LogState, offsets: Mapping[int, int], order: TableOrder) -> LogReset:
    """The reset of a log to these offsets of its topic.

    Raises Invalid if they do not name each partition, or name records that the topic does not have, and Conflict if
    drains go on from there already.
    """
    _check_offsets(state.topic, offsets)
    end = KafkaPosition(state.topic.name, offsets).format()
    if end == state.position and not is_replaced(state):
        raise Conflict(f"the log is at {show_position(end)} already")
    before = _list_starts(state)
    steps = [
        PartitionReset(
            partition=number,
            start=before.get(number),
            end=offset,
            left_out=max(0, offset - before.get(number, state.topic.partitions[number].earliest)),
            repeated=max(0, before.get(number, 0) - offset),
        )
        for number, offset in sorted(offsets.items())
    ]
    return LogReset(start=state.position, end=end, partitions=steps, warnings=_warn(state, steps, order))


def is_replaced(state: LogState) -> bool:
    """Whether the table's position is about another topic of the same name."""
    return state.problem is not None and state.problem.kind is LogProblemKind.TOPIC_REPLACED


def check_target_topic(topic: str, position: KafkaPosition) -> None:
    """Raise Invalid for offsets of another topic."""
    if position.topic != topic:
        raise Invalid(f"the log reads topic {topic}, and not {position.topic}")


def _check_offsets(topic: Topic, offsets: Mapping[int, int]) -> None:
    missing, unknown = (
        sorted(numbers) for numbers in (topic.partitions - offsets.keys(), offsets - topic.partitions.keys())
    )
    if missing or unknown:
        says = f"lacks {missing}" if missing else f"names {unknown}, which the topic lacks"
        raise Invalid(
            f"a reset names each partition of topic {topic.name}; this one {says}",
            hint="`firn log show` lists partitions and offsets",
        )
    for number, offset in offsets.items():
        bounds = topic.partitions[number]
        if not bounds.earliest <= offset <= bounds.stable:
            raise Invalid(
                f"partition {number} of topic {topic.name} has no offset {offset} to read from: it has the committed "
                f"records from {bounds.earliest} up to, but without, {bounds.stable}",
                hint="name an offset in these bounds, or earliest or latest",
            )


def _list_starts(state: LogState) -> Mapping[int, int]:
    """The next offset of each partition; none for the position in another topic."""
    if is_replaced(state):
        return {}
    if state.position == NO_POSITION:
        return state.start
    parsed = KafkaPosition.parse(state.position)
    return {**state.start, **(parsed.offsets if parsed is not None else {})}


def _warn(state: LogState, steps: Sequence[PartitionReset], order: TableOrder) -> list[str]:
    warnings = []
    left_out, repeated = sum(step.left_out for step in steps), sum(step.repeated for step in steps)
    if is_replaced(state):
        warnings.append(f"records of the old topic after {show_position(state.position)} are lost")
    if left_out:
        warnings.append(f"up to {left_out:,} records are left out: they stay missing in the table")
    if not repeated:
        return warnings
    warnings.append(f"up to {repeated:,} records are brought again")
    if order.summed_columns:
        warnings.append(f"the sums of these records count twice, in columns {', '.join(order.summed_columns)}")
    if order.is_insert_only:
        warnings.append("rows whose keys the table has stay as they are, because the first row of a key wins")
    elif order.sequence_field is None:
        warnings.append(
            "without a sequence field, these records win over newer ones until a drain has read all of them again, and "
            "for good over changes of other writers"
        )
    else:
        warnings.append(
            f"newer rows stay, because {order.sequence_field} orders the changes; a row that was deleted since may be "
            "back until a drain has read its delete again"
        )
    return warnings
