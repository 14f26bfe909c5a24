"""Commands that fetch engines for the tests, as `make engines` runs them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from firn.embedded.errors import EmbeddedError


def report(*fetches: Callable[[], Path]) -> int:
    """Fetch, and print where each thing lies; an exit code of 1 and the reason if one cannot be had."""
    try:
        for fetch in fetches:
            sys.stdout.write(f"{fetch()}\n")
    except EmbeddedError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0
