"""The position of a writer in its source, as text (docs/protocols.md, rule 6.1).

The server compares positions as texts. It reads only those of Kafka, `topic:0:1488,1:1512`: the next offset of each
partition.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import shorten

from catalog.errors import Invalid

NO_POSITION = "none"
"""The position of a writer that has committed nothing."""
LONGEST_POSITION = 32 * 1024
"""In characters. The longest position of MOST_PARTITIONS partitions is shorter."""
MOST_PARTITIONS = 1_000
_HIGHEST_OFFSET = 2**63 - 1
_HIGHEST_PARTITION = 2**31 - 1
_SHOWN = 300
_SHOWN_BEFORE_DIFFERENCE = 60
_KAFKA = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,249}):(?P<offsets>[0-9]+:[0-9]+(?:,[0-9]+:[0-9]+)*)")


@dataclass(frozen=True, slots=True)
class KafkaPosition:
    """The next offset of each partition of a topic."""

    topic: str
    offsets: Mapping[int, int]

    @classmethod
    def parse(cls, position: str) -> KafkaPosition | None:
        """The position; None for a text of another form, Invalid for too many, repeated or unordered partitions."""
        match = _KAFKA.fullmatch(position)
        if match is None:
            return None
        pairs = [pair.split(":") for pair in match["offsets"].split(",")]
        if len(pairs) > MOST_PARTITIONS:
            raise Invalid(
                f"the position names {len(pairs)} partitions of topic {match['topic']}; the most are {MOST_PARTITIONS}"
            )
        offsets = {
            _parse_number(partition, _HIGHEST_PARTITION): _parse_number(offset, _HIGHEST_OFFSET)
            for partition, offset in pairs
        }
        if list(offsets) != sorted(offsets) or len(offsets) < len(pairs):
            raise Invalid(
                f"the partitions of {show_position(position)} are not in ascending order",
                hint="name each partition once, in ascending order: positions are compared as texts",
            )
        return cls(match["topic"], offsets)

    def format(self) -> str:
        """The position as text, with its partitions in ascending order."""
        return f"{self.topic}:{','.join(f'{number}:{self.offsets[number]}' for number in sorted(self.offsets))}"


def check_position(key: str, position: object) -> str:
    """The position of this summary key; Invalid if it is no text, empty, too long, or has control characters."""
    if not isinstance(position, str) or not position:
        raise Invalid(f"{key} is not a text", hint=f"for a topic write TOPIC:PARTITION:OFFSET,…, or {NO_POSITION}")
    if len(position) > LONGEST_POSITION:
        raise Invalid(f"{key} has {len(position)} characters; the most are {LONGEST_POSITION}")
    if not position.isprintable():
        raise Invalid(f"{key} has characters that cannot be printed: {show_position(position)}")
    if position != NO_POSITION:
        KafkaPosition.parse(position)
    return position


def check_step(start: str, end: str) -> None:
    """Raise Invalid when a commit reads backwards in a topic, or loses one of its partitions."""
    before, after = KafkaPosition.parse(start), KafkaPosition.parse(end)
    if before is None or after is None:
        return
    if before.topic != after.topic:
        raise Invalid(
            f"the commit goes from topic {before.topic} to topic {after.topic}",
            hint="a writer reads one topic; register another writer for the other topic",
        )
    for partition, offset in before.offsets.items():
        reached = after.offsets.get(partition)
        if reached is None or reached < offset:
            ends = "does not name it" if reached is None else f"ends at {reached}"
            raise Invalid(
                f"the commit begins at offset {offset} of partition {partition} of {before.topic}, and {ends}"
            )


def show_position(position: str) -> str:
    """The position for a message: quoted, and shortened if it is long."""
    return repr(position if len(position) <= _SHOWN else f"{position[:_SHOWN]}…")


def show_difference(position: str, other: str) -> tuple[str, str]:
    """Both positions for a message, each shortened to the part where they differ."""
    same = next((at for at, (a, b) in enumerate(zip(position, other, strict=False)) if a != b), 0)
    first = max(same - _SHOWN_BEFORE_DIFFERENCE, 0) if max(len(position), len(other)) > _SHOWN else 0
    before = "…" if first else ""
    return show_position(before + position[first:]), show_position(before + other[first:])


def _parse_number(digits: str, highest: int) -> int:
    number = int(digits) if len(digits) <= len(str(highest)) else highest + 1
    if number > highest or str(number) != digits:
        raise Invalid(f"{shorten(digits, 40)} in a position is not a number from 0 to {highest} without leading zeros")
    return number
