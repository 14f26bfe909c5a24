"""What all messages of the protocol have in common."""

from __future__ import annotations

from typing import Any, cast

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema


class Message(BaseModel):
    """A part of what the server and an optimizer send each other. Either ignores fields that a newer version adds."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Task(Message):
    """All that the server tells an optimizer about one job, besides its lease."""


_COERCED = ("bool", "int", "float")
"""The types that pydantic would otherwise read from text and from each other."""


def _make_strict(schema: Any) -> Any:
    """The schema with every boolean and number in it strict, however deep it lies."""
    if isinstance(schema, list):
        return [_make_strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {key: _make_strict(part) for key, part in schema.items()}
    return {**parts, "strict": True} if parts.get("type") in _COERCED else parts


class Request(BaseModel):
    """A request's body; unknown fields are refused, a typo is not silently ignored.

    Booleans and numbers are taken as JSON writes them: `"false"` is no boolean, `1` neither, and NaN is no number.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type[BaseModel], handler: GetCoreSchemaHandler, /) -> CoreSchema:
        """Not by pydantic's own strict mode: it would also refuse text for enums, times and UUIDs."""
        return cast("CoreSchema", _make_strict(handler(source)))
