"""`python -m server.openapi`: the management API's OpenAPI document, from which the console's types are generated."""

from __future__ import annotations

import json
import sys

from server.app import create_api
from server.settings import Settings


def document() -> str:
    """Build the document as text, which depends only on the routes."""
    return json.dumps(create_api(Settings(), None, None).openapi(), indent=2, sort_keys=True) + "\n"


if __name__ == "__main__":
    sys.stdout.write(document())
