"""The reference of the REST API: its routes by subject, from the API document."""

from __future__ import annotations

from collections import defaultdict

import orjson

from docsite.markdown import escape, table

INTRODUCTION = """# REST API

The management API lies below `/api/v1` of the server. Each server serves its schema at
`/api/v1/openapi.json`, and shows all fields at `/docs`. The [Iceberg REST catalog](../iceberg-rest.md)
is a second API, below `/iceberg`.
"""


def routes_page(document: bytes) -> str:
    """The page's text. `document` is OpenAPI in JSON."""
    by_subject = defaultdict(list)
    for path, methods in orjson.loads(document)["paths"].items():
        for method, route in methods.items():
            row = (f"`{method.upper()} {path}`", escape(route["summary"]))
            by_subject[route["tags"][0]].append(row)
    parts = [INTRODUCTION]
    for subject, rows in sorted(by_subject.items()):
        parts += [f"## {subject.capitalize()}\n", table(("route", "purpose"), rows)]
    return "\n".join(parts)
