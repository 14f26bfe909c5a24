"""Records in the position of a retry."""

from __future__ import annotations

import pytest

from firn.errors import Invalid
from firn.record_names import LONGEST, RecordNames, take_while_short

KEYS = [(0, 5), (0, 6), (0, 7), (0, 12), (3, 0)]


def test_a_position_names_records() -> None:
    names = RecordNames.of("a+B/1=", KEYS)
    assert names.format() == "a+B/1= 0:5-7,12;3:0"
    assert RecordNames.parse(names.format()) == names
    assert RecordNames.of("a", reversed(KEYS)).keys == KEYS  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["", "orders:0:1", "a ", "a 0:", "a x:1", "a' OR 1=1 0:1"])
def test_other_positions_are_refused(text: str) -> None:
    with pytest.raises(Invalid):
        RecordNames.parse(text)


def test_a_topic_id_has_no_other_characters() -> None:
    with pytest.raises(Invalid, match="no id of a topic"):
        RecordNames.of("a' OR '1", KEYS)


def test_a_position_is_bounded() -> None:
    many = [(partition, offset * 2 + 10**17) for partition in range(10) for offset in range(1_000)]
    kept = take_while_short("a", many)
    assert len(RecordNames.of("a", kept).format()) <= LONGEST
    assert kept == many[: len(kept)]
    assert len(kept) > 500
