"""Check of texts in bodies: JSON can encode half a surrogate pair, which no database and no answer can store."""

from __future__ import annotations

import json
import re

from fastapi import Request

from catalog.errors import Invalid

_MAY_BE_HALF = re.compile(rb"\\u[dD][89a-fA-F]")


async def check_texts(request: Request) -> None:
    """Check the body, as a dependency of the management API: Invalid when a text cannot be encoded as UTF-8.

    The parser of the Iceberg routes refuses the same texts.
    """
    content = await request.body()
    if _MAY_BE_HALF.search(content) is None:
        return
    try:
        json.dumps(json.loads(content), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise Invalid("malformed request: the body has half a surrogate pair, which is not a character") from error
    except (ValueError, RecursionError):
        return  # the route reports the error
