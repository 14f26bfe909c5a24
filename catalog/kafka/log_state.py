"""Where the log of a table stands: what a drain reads next, or why it must not (docs/protocols.md, rules 6.4, 6.5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from catalog.commits.positions import NO_POSITION, KafkaPosition
from catalog.kafka.cluster import Topic


class LogProblemKind(StrEnum):
    """Why a drain stops."""

    RECORDS_GONE = "records-gone"  # the topic has dropped records that the table does not have
    TOPIC_REPLACED = "topic-replaced"  # the topic was deleted and created again
    PARTITIONS_ADDED = "partitions-added"  # keys may have moved between partitions, which orders their changes wrongly


@dataclass(frozen=True, slots=True, kw_only=True)
class LogProblem:
    """A reason that only a user can remove."""

    kind: LogProblemKind
    message: str
    lost: int | None = None
    """At most so many records; None if nobody can know."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogState:
    """The next records of a topic for a table."""

    topic: Topic
    position: str
    """`none` before the first drain."""
    start: Mapping[int, int]
    """The next offset of each partition."""
    end: Mapping[int, int]
    """The last stable offset of each partition, never below `start`."""
    problem: LogProblem | None = None

    @property
    def lag(self) -> int:
        """At most so many records wait: offsets have gaps."""
        return sum(self.end[number] - self.start[number] for number in self.end)

    @property
    def start_position(self) -> str:
        """The position at which reading begins. With a problem: to which a user may skip."""
        return KafkaPosition(self.topic.name, self.start).format()


def compare_log(
    topic: Topic,
    position: str,
    *,
    topic_id: str | None,
    orders_by_field: bool,
    starts_latest: bool = False,
    first_offsets: Mapping[int, int] | None = None,
) -> LogState:
    """Compare a table's position with its topic.

    `topic_id` is the topic that the position is about, if it is known. With `orders_by_field` the table has a sequence
    field, so the order of partitions does not matter. `first_offsets` are those of the time from which the first drain
    reads; a partition that came since they were found begins with its earliest record.
    """
    if position == NO_POSITION:
        named = first_offsets or {}
        start = {
            number: offsets.stable if starts_latest else max(offsets.earliest, named.get(number, offsets.earliest))
            for number, offsets in topic.partitions.items()
        }
        return _build_state(topic, position, start, None)
    parsed = KafkaPosition.parse(position)
    if parsed is None or _is_replaced(topic, parsed, topic_id):
        start = {number: offsets.earliest for number, offsets in topic.partitions.items()}
        message = f"topic {topic.name} was deleted and created again; records after {position} are lost"
        return _build_state(topic, position, start, LogProblem(kind=LogProblemKind.TOPIC_REPLACED, message=message))
    start = {
        number: max(parsed.offsets.get(number, 0), offsets.earliest) for number, offsets in topic.partitions.items()
    }
    return _build_state(topic, position, start, _find_problem(topic, parsed, start, orders_by_field=orders_by_field))


def _is_replaced(topic: Topic, position: KafkaPosition, topic_id: str | None) -> bool:
    if position.topic != topic.name or (topic_id is not None and topic_id != topic.id):
        return True
    if not position.offsets.keys() <= topic.partitions.keys():
        return True
    return any(offset > topic.partitions[number].stable for number, offset in position.offsets.items())


def _find_problem(
    topic: Topic, position: KafkaPosition, start: Mapping[int, int], *, orders_by_field: bool
) -> LogProblem | None:
    lost = {number: start[number] - offset for number, offset in position.offsets.items() if offset < start[number]}
    if lost:
        where = ", ".join(f"{number}: {position.offsets[number]} to {start[number]}" for number in sorted(lost))
        count = sum(lost.values())
        message = f"topic {topic.name} no longer has up to {count:,} records (offsets of partition {where})"
        return LogProblem(kind=LogProblemKind.RECORDS_GONE, message=message, lost=count)
    added = sorted(start.keys() - position.offsets.keys())
    if added and not orders_by_field:
        message = (
            f"topic {topic.name} has new partitions ({', '.join(map(str, added))}): keys may have moved to them, and "
            "without a sequence field nothing orders their old and new records"
        )
        return LogProblem(kind=LogProblemKind.PARTITIONS_ADDED, message=message, lost=0)
    return None


def _build_state(topic: Topic, position: str, start: Mapping[int, int], problem: LogProblem | None) -> LogState:
    end = {number: max(offsets.stable, start[number]) for number, offsets in topic.partitions.items()}
    return LogState(topic=topic, position=position, start=start, end=end, problem=problem)
