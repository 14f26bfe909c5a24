"""Texts in bodies that are no text: JSON can write half a surrogate pair, which no database and no answer can hold."""

from __future__ import annotations

import json
import re

from fastapi import Request

from catalog.errors import Invalid

_MAY_BE_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


async def check_texts(request: Request) -> None:
    """Dependency of the whole API: Invalid when a text of the body cannot be written as UTF-8.

    The Iceberg routes read their bodies with a parser that refuses the same.
    """
    content = await request.body()
    if _MAY_BE_HALF.search(content) is None:
        return
    try:
        json.dumps(json.loads(content), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise Invalid("malformed request: the body holds half a surrogate pair, which is no character") from error
    except (ValueError, RecursionError):
        return  # the route says what is wrong with it
