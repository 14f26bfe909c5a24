"""The part of the new commits that one run takes, if its owner bounds it (docs/protocols.md, rule 8.14)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from catalog.names import TableName


@dataclass(frozen=True, slots=True)
class InputCommit:
    """A version, or a snapshot, that an input has reached since its pin."""

    version: str
    at_ms: int
    """Milliseconds since 1970."""


@dataclass(frozen=True, slots=True)
class BoundedCommits:
    """The newest commit of each input that the run takes, None for an input that stays; and the commits left over."""

    newest: Mapping[TableName, str | None]
    left: int


def bound_commits(
    commits: Mapping[TableName, Sequence[InputCommit]], most: int | None, until_ms: int | None = None
) -> BoundedCommits | None:
    """Choose a time, and the commits up to it; None if these are all commits.

    There are about `most` commits up to that time, which is at least 1, and it is not later than `until_ms`. `commits`
    are those of each input, oldest first. Clocks of writers differ, so a commit counts as not older than the one before
    it: otherwise an input could stay for ever before a commit that has the wrong time. Commits of the chosen time are
    all taken, so a run may take more than `most`.
    """
    times = {name: list(accumulate((commit.at_ms for commit in of), max)) for name, of in commits.items()}
    in_order = sorted(at for of in times.values() for at in of)
    bounds = [] if until_ms is None else [until_ms]
    if most is not None and len(in_order) > most:
        bounds.append(in_order[most - 1])
    if not bounds:
        return None
    until = min(bounds)
    counts = {name: sum(at <= until for at in of) for name, of in times.items()}
    left = len(in_order) - sum(counts.values())
    newest = {name: commits[name][count - 1].version if count else None for name, count in counts.items()}
    return BoundedCommits(newest, left) if left else None
