"""What all messages of the protocol have in common."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Self, TypeVar, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    GetCoreSchemaHandler,
    PrivateAttr,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
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


def _keep_unknown(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    """The member of the enumeration, or the text itself where this version does not know such a member."""
    try:
        return validate(value)
    except ValueError:
        if isinstance(value, str):
            return value
        raise


_Enumeration = TypeVar("_Enumeration", bound=StrEnum)
Open = Annotated[_Enumeration, WrapValidator(_keep_unknown)]
"""An enumeration to which a newer server may add members: an older client reads those as text."""


class Out(BaseModel):
    """An answer of the management API.

    The server constructs it, also from a domain value's attributes. The client reads it from the server's JSON.
    """

    model_config = ConfigDict(from_attributes=True, frozen=True)

    _document: Any = PrivateAttr(default=None)

    @classmethod
    def read(cls, document: Any) -> Self:
        """The answer in a JSON document. Fields that a newer server adds stay in `json_value()`."""
        answer = cls.model_validate(document)
        answer._document = document  # noqa: SLF001 -- an attribute of this class
        return answer

    def json_value(self) -> Any:
        """The JSON document that the server sent; where this program constructed the answer, its fields as JSON."""
        return self.model_dump(mode="json") if self._document is None else self._document
