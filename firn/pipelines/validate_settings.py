"""Reads the list `validate` of a table in `firn-pipeline.yml`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import ValidationError

from firn.pipelines.code_settings import read_function
from firn.protocol.validators import MOST_VALIDATORS, MOST_VALUES, Severity, Validator, ValidatorKind
from firn.yaml_reading import Section

_PERCENT: Final = re.compile(r"\s*([+-]?\d{1,9}(?:\.\d+)?)\s*%\s*\.\.\s*([+-]?\d{1,9}(?:\.\d+)?)\s*%\s*")
_SHARE: Final = re.compile(r"\s*(\d{1,3}(?:\.\d{1,3})?)\s*%\s*")
_FIELDS: Final = {"condition" if kind is ValidatorKind.EXPECT else str(kind): kind for kind in ValidatorKind}


def read_validators(section: Section) -> tuple[Validator, ...]:
    """The validators of a table, in the order of the file. Raises Invalid with the line of what is wrong."""
    entries = section.sections("validate")
    if len(entries) > MOST_VALIDATORS:
        raise section.field_error("validate", f"{len(entries)} validators; {MOST_VALIDATORS} are allowed")
    validators = tuple(_read_entry(entry) for entry in entries)
    names = [validator.name for validator in validators]
    for name in names:
        if names.count(name) > 1:
            raise section.field_error("validate", f"two validators are named {name}", hint="give one a name")
    return validators


def _read_entry(entry: Section) -> Validator:
    kinds = [name for name in _FIELDS if entry.has(name)]
    if len(kinds) != 1:
        raise entry.error(f"a validator is one of {', '.join(_FIELDS)}")
    kind = _FIELDS[kinds[0]]
    fields = _READERS[kind](entry, kinds[0])
    name = entry.text("name") or _name(kind, fields)
    severity = Severity(entry.choice("severity", [str(severity) for severity in Severity], Severity.FAIL))
    entry.finish()
    try:
        return Validator(name=name, kind=kind, severity=severity, **fields)
    except ValidationError as error:
        raise entry.error(explain_limits(error)) from error


def explain_limits(error: ValidationError) -> str:
    """What is too long or too short in a validator."""
    first = error.errors()[0]
    return f"{'.'.join(map(str, first['loc'][:1]))}: {first['msg'][:1].lower()}{first['msg'][1:]}"


def _name(kind: ValidatorKind, fields: Mapping[str, Any]) -> str:
    """A name such as `not_null(driver, day)`."""
    about = ", ".join(fields.get("columns") or []) or fields.get("condition") or ""
    about = about or getattr(fields.get("function"), "name", "")
    return f"{kind}({about})" if about else str(kind)


def _read_columns(entry: Section, kind: str) -> dict[str, Any]:
    columns = [name.lower() for name in entry.texts(kind)]
    if not columns:
        raise entry.field_error(kind, f"{kind} needs a column")
    return {"columns": columns}


def _read_condition(entry: Section, kind: str) -> dict[str, Any]:
    return {"condition": entry.require(kind)}


def _read_accepted(entry: Section, kind: str) -> dict[str, Any]:
    inner, fields = _open(entry, kind)
    values = list(inner.texts("values"))
    if not 0 < len(values) <= MOST_VALUES:
        raise inner.error(f"accepted needs values, at most {MOST_VALUES:,}")
    inner.finish()
    return fields | {"values": values}


def _read_range(entry: Section, kind: str) -> dict[str, Any]:
    inner, fields = _open(entry, kind)
    bounds = {"minimum": inner.text("min"), "maximum": inner.text("max")}
    if not any(bound is not None for bound in bounds.values()):
        raise inner.error("range needs min or max")
    inner.finish()
    return fields | bounds


def _read_match(entry: Section, kind: str) -> dict[str, Any]:
    inner, fields = _open(entry, kind)
    fields["pattern"] = inner.require("pattern")
    inner.finish()
    return fields


def _read_references(entry: Section, kind: str) -> dict[str, Any]:
    inner, fields = _open(entry, kind)
    fields["table"] = inner.require("in")
    fields["table_column"] = (inner.text("in_column") or fields["columns"][0]).lower()
    inner.finish()
    return fields


def _read_row_count(entry: Section, kind: str) -> dict[str, Any]:
    inner = _require_section(entry, kind)
    change = inner.text("change")
    fields: dict[str, Any]
    if change is not None:
        match = _PERCENT.fullmatch(change)
        if match is None or float(match[1]) > float(match[2]):
            raise inner.field_error("change", f"{change!r} is no span", hint='write one such as "-20 % .. +50 %"')
        fields = {"minimum": match[1], "maximum": match[2], "percent": True}
    else:
        fields = {"minimum": _read_count(inner, "min"), "maximum": _read_count(inner, "max")}
        if fields["minimum"] is None and fields["maximum"] is None:
            raise inner.error("row_count needs min, max or change")
    inner.finish()
    return fields


def _read_sql(entry: Section, kind: str) -> dict[str, Any]:
    return {"sql": entry.require(kind), "expected": entry.require("expect")}


def _read_python(entry: Section, kind: str) -> dict[str, Any]:
    return {"function": read_function(entry, kind)}


def _read_same(entry: Section, kind: str) -> dict[str, Any]:
    text = entry.require(kind)
    match = _SHARE.fullmatch(text)
    if match is None or not 0 < float(match[1]) <= 100:
        raise entry.field_error(kind, f"{text!r} is no part of the rows", hint='write one such as "5 %"')
    return {"minimum": match[1], "percent": True}


def _read_count(section: Section, name: str) -> str | None:
    text = section.text(name)
    if text is not None and not (text.isascii() and text.isdecimal() and len(text) <= 18):
        raise section.field_error(name, f"{name} is {text!r}, which is no number of rows")
    return text


def _open(entry: Section, kind: str) -> tuple[Section, dict[str, Any]]:
    inner = _require_section(entry, kind)
    columns = [name.lower() for name in inner.texts("column")]
    if not columns:
        raise inner.error(f"{kind} needs column")
    return inner, {"columns": columns}


def _require_section(entry: Section, kind: str) -> Section:
    inner = entry.section(kind)
    assert inner is not None  # noqa: S101 -- the caller has seen the field
    return inner


_READERS: Mapping[ValidatorKind, Callable[[Section, str], dict[str, Any]]] = {
    ValidatorKind.EXPECT: _read_condition,
    ValidatorKind.NOT_NULL: _read_columns,
    ValidatorKind.ACCEPTED: _read_accepted,
    ValidatorKind.RANGE: _read_range,
    ValidatorKind.MATCHES: _read_match,
    ValidatorKind.REFERENCES: _read_references,
    ValidatorKind.UNIQUE: _read_columns,
    ValidatorKind.ROW_COUNT: _read_row_count,
    ValidatorKind.SQL: _read_sql,
    ValidatorKind.PYTHON: _read_python,
    ValidatorKind.SAME_AS_FULL: _read_same,
}
