"""What people have written about a catalog, a namespace, a table or a view (docs/describing.md)."""

from __future__ import annotations

from firn.protocol.base import Out


class DescriptionOut(Out):
    """The comment, the owner and the labels of an object."""

    comment: str | None
    owner: str | None
    labels: list[str]
