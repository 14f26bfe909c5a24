"""The file that the server writes for a configuration: the reader of `firn cdc` gets the same configuration from it."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from firn.protocol.cdc.routing import CdcConfig, TableRule
from firn.protocol.cdc.sync_file import write_config
from tests.firn.cdc.test_config import GOOD, read

ODD = ["'", '"', "\\", ":", "#", "- x", "[a, b]", "{a: b}", "&a", "*a", "!x", "|", ">", "%", "@", "`", "yes", "null"]
ODD += ["1", "1.5", "~", "a: b", "a #b", " a", "a ", "é", "😀", "''", "...", "---", "?", ",", "0x1f", "2026-01-01"]


def test_a_file_is_written_as_it_was_read(tmp_path: Path) -> None:
    config = read(tmp_path, GOOD)
    text = write_config(config)
    assert read(tmp_path, text) == replace(config, tables=number_lines(config, read(tmp_path, text)))
    assert "  - include: 'shop\\.(orders|items)'\n    exclude: 'shop\\.items_old'\n" in text


def test_odd_texts_stay_as_they_are(tmp_path: Path) -> None:
    chance = random.Random(7)
    for _ in range(60):
        texts = [chance.choice(ODD) + chance.choice(["", "x", *ODD]) for _ in range(8)]
        config = build(texts)
        again = read(tmp_path, write_config(config))
        assert replace(again, tables=number_lines(again, config)) == config, texts


@pytest.mark.parametrize("text", ["a\nb", "a\tb", "a\x00", "a\u2028b", "a\x85b", "\ud800", "\ufeff"])
def test_texts_of_several_lines_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="control characters"):
        write_config(build([text] * 8))


def build(texts: list[str]) -> CdcConfig:
    rule = TableRule(
        include=re.compile(re.escape(texts[0])),
        exclude=re.compile(re.escape(texts[1])),
        table=texts[2].replace("\\", "/"),
        primary_key=(texts[3], texts[4]),
        sequence_field=texts[5],
        partition_by=(texts[6],),
        is_partial=False,
        source_column=texts[7],
        columns={texts[3]: "long", texts[4]: "decimal(9,2)"},
        properties={"firn.log.max-lag": texts[5]},
        line=0,
    )
    return CdcConfig(
        name="shop",
        format="debezium-json",
        connection=texts[0],
        brokers=(),
        topics=(re.compile(re.escape(texts[1])), re.compile("a.*")),
        start="latest",
        deletes="ignore",
        truncates="empty",
        unknown_schemas="quarantine",
        schema="ignore",
        tables=(rule,),
    )


def number_lines(config: CdcConfig, other: CdcConfig) -> tuple[TableRule, ...]:
    """The rules of a configuration, with the lines of another."""
    return tuple(replace(rule, line=same.line) for rule, same in zip(config.tables, other.tables, strict=True))
