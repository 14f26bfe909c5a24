"""Reads when the runs of a table start: `firn.fresh-within` in SQL, `trigger` in `firn-pipeline.yml`."""

from __future__ import annotations

from firn.durations import duration_ms
from firn.errors import Invalid
from firn.pipelines.errors import InvalidDefinition
from firn.protocol.pipelines import Trigger, TriggerKind
from firn.yaml_reading import Section

_LONGEST_MS = 366 * 86_400_000
_KINDS = ("fresh_within", "cron", "on")


def parse_fresh_within(text: str) -> Trigger:
    """The trigger of a duration such as `15 min`. Raises Invalid for what is none, or not between 1 s and a year."""
    milliseconds = duration_ms(text) or 0
    if not 1_000 <= milliseconds <= _LONGEST_MS:
        raise Invalid(f"{text!r} is not between 1 s and 366 d")
    return Trigger(kind=TriggerKind.FRESH, fresh_within_seconds=milliseconds // 1_000)


def read_fresh_within(text: str, line: int) -> Trigger:
    """The trigger of the property `firn.fresh-within`. Raises InvalidDefinition with the line."""
    try:
        return parse_fresh_within(text)
    except Invalid as error:
        raise InvalidDefinition(f"firn.fresh-within: {error.message}", line=line, hint=error.hint) from error


def read_trigger(section: Section) -> Trigger | None:
    """The field `trigger` of a section; None if it is not there. Raises Invalid with the line."""
    if section.is_text("trigger"):
        section.choice("trigger", ("manual",), "manual")
        return Trigger()
    trigger = section.section("trigger")
    if trigger is None:
        return None
    kinds = [kind for kind in _KINDS if trigger.has(kind)]
    if len(kinds) != 1:
        raise trigger.error("trigger needs one of fresh_within, cron and on", hint="for runs by hand write: manual")
    read = _read_kind(trigger, kinds[0])
    trigger.finish()
    return read


def _read_kind(trigger: Section, kind: str) -> Trigger:
    text = trigger.require(kind)
    if kind == "cron":
        return Trigger(kind=TriggerKind.CRON, cron=" ".join(text.split())[:100])
    if kind == "on":
        trigger.choice("on", ("commit",), "commit")
        return Trigger(kind=TriggerKind.COMMIT, all_inputs=trigger.flag("all"))
    try:
        return parse_fresh_within(text)
    except Invalid as error:
        raise trigger.field_error("fresh_within", error.message, hint=error.hint) from error
