"""Positions in a Kafka topic, as Spark's offset logs and as Firn's tables write them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

_POSITION = re.compile(r"(?P<topic>[A-Za-z0-9._-]+):(?P<offsets>\d+:\d+(?:,\d+:\d+)*)")


@dataclass(frozen=True)
class TopicPosition:
    """The next offset of each partition of a topic. A partition without an offset has not been read."""

    topic: str
    offsets: Mapping[int, int]

    @classmethod
    def parse(cls, position: str) -> TopicPosition | None:
        """Parse `topic:0:1488,1:1512`; None for a position of another form."""
        match = _POSITION.fullmatch(position)
        if match is None:
            return None
        pairs = (pair.split(":") for pair in match["offsets"].split(","))
        return cls(match["topic"], {int(partition): int(offset) for partition, offset in pairs})

    def __str__(self) -> str:
        listed = ",".join(f"{partition}:{offset}" for partition, offset in sorted(self.offsets.items()))
        return f"{self.topic}:{listed}"

    def starting_offsets(self, partitions: int = 0) -> str:
        """The value for Spark's source option `startingOffsets`, with a topic's first `partitions` partitions at least.

        Partitions that the position does not name begin at 0.
        """
        offsets = {**dict.fromkeys(range(partitions), 0), **self.offsets}
        return json.dumps({self.topic: {str(partition): offset for partition, offset in sorted(offsets.items())}})

    def is_at(self, other: TopicPosition) -> bool:
        """Whether both are the same place. A new partition begins at 0."""
        return not any(self._gaps(other).values())

    def is_within(self, other: TopicPosition) -> bool:
        """Whether this position lies in no partition behind `other`."""
        return all(gap <= 0 for gap in self._gaps(other).values())

    def count_since(self, other: TopicPosition | None) -> int:
        """The number of offsets from `other` to here. Some of them may have no record."""
        start = other or TopicPosition(self.topic, {})
        return sum(max(gap, 0) for gap in self._gaps(start).values())

    def _gaps(self, other: TopicPosition) -> dict[int, int]:
        partitions = self.offsets.keys() | other.offsets.keys()
        return {number: self.offsets.get(number, 0) - other.offsets.get(number, 0) for number in partitions}


def read_offsets(offsets: str | None) -> list[TopicPosition] | None:
    """Read the positions of a query's only source from Spark's JSON, one for each topic; None for another source.

    The text is that of an entry in the offset log, `[{"topic":{"0":48,"1":52}}]`, or of a source's own file.
    """
    try:
        entry = json.loads(offsets or "")
    except ValueError:
        return None
    if isinstance(entry, list):
        if len(entry) != 1:
            return None
        entry = entry[0]
    if not isinstance(entry, dict) or not entry or not all(_are_offsets(value) for value in entry.values()):
        return None
    return [
        TopicPosition(topic, {int(number): offset for number, offset in partitions.items()})
        for topic, partitions in entry.items()
    ]


def _are_offsets(value: object) -> bool:
    return isinstance(value, dict) and all(
        key.isdecimal() and isinstance(offset, int) and offset >= 0 for key, offset in value.items()
    )
