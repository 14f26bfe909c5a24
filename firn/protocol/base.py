"""Base classes of the protocol's messages: tasks, requests and answers."""

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
    """A message between server and optimizer, or a part of one. Both ignore fields that a newer version adds."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class Task(Message):
    """The facts of one job that the optimizer gets with the lease."""


_COERCED = ("bool", "int", "float")
"""Types that pydantic converts from text, and into each other, unless they are strict."""


def _make_strict(schema: Any) -> Any:
    """Return the schema with strict booleans and numbers at every level."""
    if isinstance(schema, list):
        return [_make_strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = {key: _make_strict(part) for key, part in schema.items()}
    return {**parts, "strict": True} if parts.get("type") in _COERCED else parts


class Request(BaseModel):
    """The body of a request. The server refuses unknown fields, so it notices typos.

    Booleans and numbers have to be JSON's own: the server refuses `"false"` and `1` as booleans, and NaN as a number.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type[BaseModel], handler: GetCoreSchemaHandler, /) -> CoreSchema:
        """Build the schema. Pydantic's own strict mode would also refuse text for enums, times and UUIDs."""
        return cast("CoreSchema", _make_strict(handler(source)))


def _keep_unknown(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    """Return the member of the enumeration, or the text itself if this version has no such member."""
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
        """Read the answer from a JSON document. Fields that a newer server adds stay in `json_value()`."""
        answer = cls.model_validate(document)
        answer._document = document  # noqa: SLF001 -- an attribute of this class
        return answer

    def json_value(self) -> Any:
        """Return the JSON document that the server sent; if this program constructed the answer, its fields as JSON."""
        return self.model_dump(mode="json") if self._document is None else self._document
