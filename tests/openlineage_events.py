"""OpenLineage events read by the standard's own client, which knows every field and the version of every facet."""

from __future__ import annotations

import types
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Any, Union, get_args, get_origin, get_type_hints

import attr
from openlineage.client import event_v2
from openlineage.client.facet_v2 import (
    column_lineage_dataset,
    error_message_run,
    job_type_job,
    output_statistics_output_dataset,
    sql_job,
)
from openlineage.client.serde import Serde

_FACETS: Mapping[str, type] = {
    "columnLineage": column_lineage_dataset.ColumnLineageDatasetFacet,
    "errorMessage": error_message_run.ErrorMessageRunFacet,
    "jobType": job_type_job.JobTypeJobFacet,
    "outputStatistics": output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet,
    "sql": sql_job.SQLJobFacet,
}
"""The standard's name of each facet that Firn sends, with its class."""


def read_event(document: Mapping[str, Any]) -> event_v2.RunEvent:
    """The client's event. AssertionError, TypeError or ValueError for a document that is no such event.

    A field that the client does not know, a value of another type and another version of a facet are wrong, and so is
    a document from which the client would not make the same one.
    """
    event: event_v2.RunEvent = _read_object(event_v2.RunEvent, document)
    assert datetime.fromisoformat(event.eventTime).tzinfo is not None, "the standard's times have a zone"
    written = _without_empty(Serde.to_dict(event))
    assert written == _without_empty(document), "the client writes another event"
    return event


def _read_object(kind: type, document: Any) -> Any:
    assert isinstance(document, Mapping), f"no {kind.__name__}: {document!r}"
    hints = get_type_hints(kind)
    fields = {field.name: field for field in attr.fields(kind)}
    unknown = document.keys() - fields.keys()
    assert not unknown, f"{kind.__name__} has no {sorted(unknown)}"
    arguments = {}
    for name, value in document.items():
        field = fields[name]
        if field.init:
            arguments[field.alias] = _read_value(hints[name], value)
        else:  # the address of the schema
            expected = kind._get_schema()  # type: ignore[attr-defined]
            assert value == expected, f"{name} is {value}, and the client has {expected}"
    missing = {name for name, field in fields.items() if not field.init} - document.keys()
    assert not missing, f"{kind.__name__} lacks {sorted(missing)}"
    return kind(**arguments)


def _read_value(hint: Any, value: Any) -> Any:
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        (kind,) = (part for part in parts if part is not type(None))
        return None if value is None else _read_value(kind, value)
    if origin is list:
        assert isinstance(value, list), f"no list: {value!r}"
        return [_read_value(parts[0], entry) for entry in value]
    if origin is dict:
        assert isinstance(value, dict), f"no object: {value!r}"
        return {name: _read_entry(name, parts[1], entry) for name, entry in value.items()}
    if issubclass(hint, Enum):
        return hint(value)
    if attr.has(hint):
        return _read_object(hint, value)
    assert type(value) is hint, f"{value!r} is no {hint.__name__}"
    return value


def _read_entry(name: str, hint: Any, value: Any) -> Any:
    if "Facet" not in hint.__name__:
        return _read_value(hint, value)
    facet = _FACETS[name]
    assert issubclass(facet, hint), f"{name} does not belong there"
    return _read_object(facet, value)


def _without_empty(value: Any) -> Any:
    """The same without the empty lists and objects that the client adds and leaves out."""
    if isinstance(value, list):
        return [_without_empty(entry) for entry in value]
    if not isinstance(value, Mapping):
        return value
    entries = {name: _without_empty(entry) for name, entry in value.items()}
    return {name: entry for name, entry in entries.items() if entry not in ([], {})}
