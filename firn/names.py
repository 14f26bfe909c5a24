"""Dotted names as people type them; a text that is none is refused as every other request that makes no sense."""

from __future__ import annotations

from dataclasses import dataclass

from firn.errors import Invalid
from firn.protocol import names


def split_name(text: str) -> tuple[str, ...]:
    """The parts of a dotted name; Invalid when a part is empty or backticks do not match."""
    try:
        return names.split_name(text)
    except names.InvalidName as error:
        raise Invalid(error.message, hint=error.hint) from error


@dataclass(frozen=True, slots=True)
class Name:
    """A table's name, with its catalog."""

    catalog: str
    table: str

    @property
    def parts(self) -> tuple[str, ...]:
        """Namespace and name, part by part."""
        return split_name(self.table)

    def __str__(self) -> str:
        return f"{self.catalog}.{self.table}"
