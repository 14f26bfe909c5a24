"""Changes of comments, owners and labels, as the server takes them."""

from __future__ import annotations

from collections.abc import Sequence

from firn.transport import Json


def build_change(
    comment: str | None, owner: str | None, add_labels: Sequence[str], remove_labels: Sequence[str]
) -> dict[str, Json]:
    """The body of a request. None leaves a text as it is, and an empty text removes it."""
    labels = {"add_labels": list(add_labels), "remove_labels": list(remove_labels)}
    return {"comment": comment, "owner": owner, **labels}


def build_column_change(
    comment: str | None, add_labels: Sequence[str] = (), remove_labels: Sequence[str] = ()
) -> dict[str, Json]:
    """The change of one column."""
    return {"comment": comment, "add_labels": list(add_labels), "remove_labels": list(remove_labels)}
