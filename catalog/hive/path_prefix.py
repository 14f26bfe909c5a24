"""Directories that lie in each other: who reads what is below one reads the other's files too."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from firn.protocol.locations import normalize_location


def group_nested(locations: Sequence[str]) -> Iterator[list[int]]:
    """Positions of directories that lie in each other, or are the same, an outermost one first."""
    places = [normalize_location(location).rstrip("/") + "/" for location in locations]
    group: list[int] = []
    for at in sorted(range(len(places)), key=lambda at: places[at]):
        if group and places[at].startswith(places[group[0]]):
            group.append(at)
            continue
        if len(group) > 1:
            yield group
        group = [at]
    if len(group) > 1:
        yield group


def find_innermost(directory: str, places: Collection[str]) -> str | None:
    """The innermost of these places that a directory is, or lies in; all normalize_location."""
    while directory and directory not in places:
        directory = directory.rpartition("/")[0]
    return directory or None
