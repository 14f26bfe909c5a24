"""Records of a topic in a position, by which a retry names what it has sent (docs/protocols.md, rule 6.13)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from firn.errors import Invalid

LONGEST = 30_000
"""In characters; the server stores positions of at most 32,768."""
_TOPIC_ID = re.compile(r"[A-Za-z0-9_+/=-]{1,64}")
_FORM = re.compile(r"(?P<topic_id>[A-Za-z0-9_+/=-]{1,64}) (?P<partitions>[0-9]+:[0-9,-]+(?:;[0-9]+:[0-9,-]+)*)")
Key = tuple[int, int]
"""Partition and offset."""


@dataclass(frozen=True, slots=True)
class RecordNames:
    """Records of one topic, in the order of partitions and offsets."""

    topic_id: str
    keys: Sequence[Key]

    @classmethod
    def of(cls, topic_id: str, keys: Sequence[Key]) -> Self:
        """The names of some records; Invalid for a text that is no id of a topic, such as in a row by hand."""
        if _TOPIC_ID.fullmatch(topic_id) is None:
            raise Invalid(f"{topic_id[:80]!r} is no id of a topic", hint="delete the row: no drain has written it")
        return cls(topic_id, sorted(keys))

    @classmethod
    def parse(cls, position: str) -> Self:
        """The records that a position names; Invalid for another position."""
        match = _FORM.fullmatch(position)
        if match is None:
            raise Invalid(f"the position {position[:80]!r} of the writer is none of a retry")
        keys: list[Key] = []
        for part in match["partitions"].split(";"):
            partition, _, ranges = part.partition(":")
            for text in ranges.split(","):
                first, _, last = text.partition("-")
                keys += [(int(partition), offset) for offset in range(int(first), int(last or first) + 1)]
        return cls(match["topic_id"], keys)

    def format(self) -> str:
        """The position: `TOPIC_ID 0:5-9,12;1:7`."""
        parts: dict[int, list[list[int]]] = {}
        for partition, offset in self.keys:
            ranges = parts.setdefault(partition, [])
            if ranges and ranges[-1][1] == offset - 1:
                ranges[-1][1] = offset
            else:
                ranges.append([offset, offset])
        text = ";".join(f"{partition}:{','.join(map(_show, ranges))}" for partition, ranges in parts.items())
        return f"{self.topic_id} {text}"


def take_while_short(topic_id: str, keys: Sequence[Key]) -> list[Key]:
    """The first of these records, as many as one position can name."""
    prefix = list(keys)
    while len(RecordNames.of(topic_id, prefix).format()) > LONGEST:
        prefix = prefix[: len(prefix) // 2]
    return prefix


def _show(ends: Sequence[int]) -> str:
    first, last = ends
    return str(first) if first == last else f"{first}-{last}"
