"""The configuration of a plan of change data capture, from a request with patterns (decision 128)."""

from __future__ import annotations

import re
from collections.abc import Mapping

from catalog.errors import Invalid
from firn.protocol.cdc.routing import CdcConfig, TableRule, check_template, find_contradiction
from firn.protocol.cdc_plans import CdcPlanRequest, CdcRuleRequest
from firn.protocol.envelope_readers import CDC_FORMATS

_TOPIC_STARS, _TABLE_STARS = 1, 2
"""More asterisks would make a match slow. All matches of a plan take a second at most."""
_NO_PROPERTIES: Mapping[str, str] = {}


def build_config(request: CdcPlanRequest) -> CdcConfig:
    """The configuration of a request; Invalid for a pattern or a rule that `firn cdc validate` would refuse."""
    if request.format not in CDC_FORMATS:
        raise Invalid(f"format is {request.format!r}, not one of {', '.join(CDC_FORMATS)}")
    return CdcConfig(
        name=request.name,
        format=request.format,
        connection=request.connection,
        brokers=(),
        topics=tuple(compile_pattern(pattern, _TOPIC_STARS) for pattern in request.topics),
        start=request.start,
        deletes=request.deletes,
        truncates=request.truncates,
        schema=request.schema_,
        tables=tuple(_build_rule(number, rule) for number, rule in enumerate(request.tables, 1)),
    )


def _build_rule(number: int, request: CdcRuleRequest) -> TableRule:
    rule = TableRule(
        include=compile_pattern(request.include, _TABLE_STARS),
        exclude=None if request.exclude is None else compile_pattern(request.exclude, _TABLE_STARS),
        table=request.table,
        primary_key=tuple(request.primary_key),
        sequence_field=request.sequence_field,
        partition_by=tuple(request.partition_by),
        is_partial=request.partial,
        source_column=request.source_column,
        columns=request.columns,
        properties=_NO_PROPERTIES,
        line=number,
    )
    try:
        check_template(rule.include, rule.table)
    except ValueError as error:
        raise Invalid(f"rule {number}: {rule.table!r} does not fit {request.include!r}: {error}") from None
    contradiction = find_contradiction(rule)
    if contradiction is not None:
        raise Invalid(f"rule {number}: {contradiction[1]}", hint="docs/keyed-tables.md says why")
    return rule


def compile_pattern(text: str, most: int) -> re.Pattern[str]:
    """A regular expression for whole names, with a group for each asterisk; Invalid for more than `most` of them."""
    if text.count("*") > most:
        times = "one asterisk" if most == 1 else f"{most} asterisks"
        raise Invalid(f"{text!r} has more than {times}", hint="a sync file takes regular expressions")
    return re.compile("(.*)".join(_escape(part) for part in text.split("*")))


def _escape(text: str) -> str:
    """Escape what a regular expression reads otherwise, and no more: people read the file."""
    return re.sub(r"[\\.^$+?{}\[\]|()]", lambda match: f"\\{match.group()}", text)
