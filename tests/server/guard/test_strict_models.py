"""Models of request bodies take no value of another type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from pydantic import ValidationError

from catalog.access.privileges import Privilege, Securable
from firn.protocol.base import Request as In
from server import app as server_app
from tests.server.guard.recording import endpoints

Needs = set[tuple[Privilege | None, Securable]]
WRONG: Mapping[Any, tuple[Any, ...]] = {
    bool: ("true", "false", 1, 0),
    int: ("1", True, 1.0),
    float: ("1", True, 1e400),
}
"""What is of no such type, and what pydantic would take for it."""


def models() -> Iterator[type[In]]:
    """All models of request bodies, with those that lie in others."""
    todo = [In]
    while todo:
        model = todo.pop()
        todo += model.__subclasses__()
        yield model


def test_no_request_model_takes_text_or_a_number_for_a_boolean_or_text_for_a_number() -> None:
    assert list(endpoints(server_app._API))  # all models are loaded
    looked = 0
    for model in models():
        for name, field in model.model_fields.items():
            kinds = {field.annotation, *get_args(field.annotation)} & WRONG.keys()
            for value in [value for kind in kinds for value in WRONG[kind]]:
                looked += 1
                errors = _errors(model, {name: value})
                assert any(error["loc"][0] == name for error in errors), (model, name, value)
    assert looked > 20


def _errors(model: type[In], body: dict[str, Any]) -> Any:
    try:
        model.model_validate(body)
    except ValidationError as error:
        return error.errors()
    return []
