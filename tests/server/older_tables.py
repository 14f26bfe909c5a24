"""Tables that are older than the location rule: they lie, or name files, where no new table may."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from catalog.locations.location_rule import AllowedLocations, FileRule


@contextmanager
def before_the_location_rule() -> Iterator[None]:
    """What is made in here is made as a server without the rule has made it."""
    with (
        patch.object(AllowedLocations, "check_directory", lambda *_: frozenset()),
        patch.object(FileRule, "check", lambda *_: None),
    ):
        yield
