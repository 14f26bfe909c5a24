"""Sets of tables that move together: one run computes them, and one transaction commits them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

MOST_TOGETHER = 20
"""The tables that one run computes and commits together."""


def explain_wrong_sets(
    sets: Sequence[Sequence[str]], inputs: Mapping[str, Collection[str]]
) -> tuple[str, str | None] | None:
    """What is wrong with these sets of names, and what to do; None if they can be.

    `inputs` are those of each table of the pipeline, by names in one spelling.
    """
    seen: set[str] = set()
    for members in sets:
        for name in members:
            if name not in inputs:
                return f"consistent names {name}, which the pipeline does not define", None
            if name in seen:
                return f"consistent names {name} twice", "a table belongs to one set at most"
            seen.add(name)
        if not 2 <= len(members) <= MOST_TOGETHER:
            return f"a set of consistent has {len(members)} tables", f"a set has 2 to {MOST_TOGETHER} tables"
        if (path := _find_path(members, inputs)) is not None:
            return (
                f"{path[0]} and {path[-1]} cannot move together: {' reads '.join(path)}",
                "a table shows the commits of its inputs only with its next run: take one of them out of the set",
            )
    return None


def _find_path(members: Sequence[str], inputs: Mapping[str, Collection[str]]) -> list[str] | None:
    """Tables of which each reads the next, from a member of the set to another one; None if no member reads another."""
    for start in members:
        waiting, seen = [[start]], {start}
        while waiting:
            path = waiting.pop()
            for source in inputs.get(path[-1], ()):
                if source in members and source != start:
                    return [*path, source]
                if source not in seen:
                    seen.add(source)
                    waiting.append([*path, source])
    return None
