"""The default locations of new tables and namespaces in the warehouse of their catalog."""

from __future__ import annotations

import re
from uuid import uuid4

from catalog.names import Namespace, TableName

MAX_NAME_LENGTH = 64
"""Characters of a name in a path. File systems limit a directory's name to 255 bytes, with the server's suffix."""


def make_default_location(warehouse: str, name: TableName) -> str:
    """Make a location that no other table has had, so a table that is created again shares no files with the old one.

    Paths and URIs give a meaning to some characters of names (`..`, `%`, `#`, spaces), and a Java program in the
    C locale writes no other letters than ASCII. The location has `_` in their place.
    """
    return f"{make_default_directory(warehouse, name.namespace)}/{_format_path_part(name.name)}-{uuid4().hex[:12]}"


def make_default_directory(warehouse: str, namespace: Namespace) -> str:
    """Make the directory below which the tables of a namespace have their default locations."""
    return "/".join((warehouse.rstrip("/"), *map(_format_path_part, namespace)))


def _format_path_part(name: str) -> str:
    return re.sub(r"[^\w.-]|^\.+", "_", name[:MAX_NAME_LENGTH], flags=re.ASCII)
