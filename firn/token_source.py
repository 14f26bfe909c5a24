"""The access token that a process finds in its environment."""

from __future__ import annotations

import os
from pathlib import Path

from firn.errors import Invalid


def read_token() -> str | None:
    """The token in FIRN_TOKEN, or else in the file that FIRN_TOKEN_FILE names; None without either.

    Containers get secrets as files. Raises Invalid if the file cannot be read or is empty.
    """
    token, path = os.environ.get("FIRN_TOKEN"), os.environ.get("FIRN_TOKEN_FILE")
    if token or not path:
        return token or None
    try:
        token = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise Invalid(f"FIRN_TOKEN_FILE names {path}, which cannot be read: {reason}") from error
    if not token:
        raise Invalid(f"FIRN_TOKEN_FILE names {path}, which is empty")
    return token
