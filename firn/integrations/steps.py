"""Work with a server as a generator of calls and pauses, without I/O.

A worker drives it with a blocking client, and Airflow's triggerer with an asynchronous one, so both do the same.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias, TypeVar

from pydantic import ValidationError

from firn.errors import Invalid, OutcomeUnknown, ServerFault, Unavailable, Unreachable
from firn.history import quoted
from firn.protocol.base import Out

T = TypeVar("T")
AnswerT = TypeVar("AnswerT", bound=Out)
Json: TypeAlias = Any

PATIENCE_SECONDS = 300.0
"""How long a server may be away before the work fails."""
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the management API."""

    method: str
    path: str
    body: Json = None
    params: Mapping[str, str | int | None] | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing to do for some seconds."""

    seconds: float


Steps: TypeAlias = Generator[Call | Pause, Json, T]
"""The driver sends the answer of a call, or throws its error in."""


def call_patiently(call: Call, patience_seconds: float) -> Steps[Json]:
    """The answer of a call that may be repeated, which is sent again while no server answers."""
    deadline, pause = time.monotonic() + patience_seconds, _FIRST_PAUSE_SECONDS
    while True:
        try:
            return (yield call)
        except (Unreachable, Unavailable, OutcomeUnknown):
            if time.monotonic() >= deadline:
                raise
        yield Pause(pause)
        pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)


def read_answer(model: type[AnswerT], document: Json) -> AnswerT:
    """The answer as a message. ServerFault if it is no such message, because the program there is not Firn."""
    try:
        return model.read(document)
    except ValidationError as error:
        raise ServerFault(
            f"the server's answer is not like Firn's: {error.error_count()} fields are missing or wrong",
            hint="check the address, the port and the server's version",
        ) from error


def read_items(document: Json) -> list[Json]:
    """The entries of a page of a list. ServerFault if it is no page."""
    items = document.get("items") if isinstance(document, dict) else None
    if not isinstance(items, list):
        raise ServerFault("the server's answer is not like Firn's: it is no page of a list")
    return items


def read_time(value: Json) -> datetime:
    """A time with its zone. ServerFault if it is none."""
    try:
        time_read = datetime.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise ServerFault("the server's answer is not like Firn's: it has a time that is none") from error
    if time_read.tzinfo is None:
        raise ServerFault("the server's answer is not like Firn's: it has a time without a zone")
    return time_read


def quote_part(name: str) -> str:
    """A name as a part of an address. Invalid for a name that would lead to another address."""
    if not name or name in (".", ".."):
        raise Invalid(f"{name!r} is no name")
    return quoted(name)
