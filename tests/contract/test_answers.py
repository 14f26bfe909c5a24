"""What the client reads of answers is in the API document: server and client share one class for each answer."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import pytest
from pydantic import ValidationError

from firn.protocol import answers
from firn.protocol.answers.jobs import JobOut
from firn.protocol.answers.tables import TableOut
from firn.protocol.base import Out
from firn.protocol.jobs import JobKind, JobStatus
from tests.answer_documents import JOB, TABLE

SCHEMAS = json.loads((Path(__file__).parent / "openapi.json").read_text(encoding="utf-8"))["components"]["schemas"]
MODULES = [import_module(f"{answers.__name__}.{module.name}") for module in iter_modules(answers.__path__)]
ANSWERS = {
    model.__name__: model
    for module in MODULES
    for model in vars(module).values()
    if isinstance(model, type) and issubclass(model, Out) and model.__module__ == module.__name__
}


def shape(schema: Any) -> Any:
    """A schema without its references' folder, titles and descriptions."""
    if isinstance(schema, list):
        return [shape(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: value.rpartition("/")[2] if key == "$ref" else shape(value)
        for key, value in schema.items()
        if key not in {"title", "description", "$defs"}
    }


@pytest.mark.parametrize("name", sorted(ANSWERS))
def test_an_answer_is_in_the_document_as_the_client_reads_it(name: str) -> None:
    assert shape(ANSWERS[name].model_json_schema(mode="serialization")) == shape(SCHEMAS[name])


def test_all_answers_of_the_client_are_compared() -> None:
    compared = {"CatalogOut", "DryRunOut", "EntryOut", "JobOut", "OperationOut", "RegisteredOut", "TableOut"}
    assert compared <= set(ANSWERS)


def test_an_older_client_shows_what_a_newer_server_adds() -> None:
    job = JobOut.read(JOB | {"cost": {"euros": 3}})
    assert job.json_value()["cost"] == {"euros": 3}
    assert job.kind is JobKind.MERGE


def test_an_older_client_reads_a_kind_of_job_that_it_does_not_know() -> None:
    job = JobOut.read(JOB | {"kind": "census"})
    assert job.kind == "census"
    assert job.json_value()["kind"] == "census"


def test_an_answer_that_the_program_constructs_is_its_fields() -> None:
    assert JobOut.model_validate(JOB).json_value() == JOB


@pytest.mark.parametrize(("field", "value"), [("status", "lost"), ("kind", 7), ("attempt", "first"), ("id", None)])
def test_a_value_of_another_type_is_refused(field: str, value: object) -> None:
    with pytest.raises(ValidationError, match=field):
        JobOut.read(JOB | {field: value})


def test_the_documents_of_tests_are_whole() -> None:
    assert JobOut.read(JOB).status is JobStatus.PENDING
    assert TableOut.read(TABLE).full_name == "db.t"
