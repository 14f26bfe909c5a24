"""Model of jobs that delete files by an old plan (docs/protocols.md, rules 2.8 and 2.9): expiry and orphan removal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tests.models.explore import Steps

Snapshot = tuple[int, frozenset[int]]


class Rules(NamedTuple):
    """The rules, each with the number that docs/protocols.md gives it."""

    refuses_referenced: bool = True
    """2.8: the server refuses to remove a snapshot that a ref names."""
    computes_after_commit: bool = True
    """2.8: which files to delete follows from the metadata that the commit returned, not from the plan."""
    refuses_old_leases: bool = True
    """2.9: a lease that is so old that its output may be taken for an orphan commits nothing."""


SNAPSHOTS: frozenset[Snapshot] = frozenset((number, frozenset({number - 1, number})) for number in (1, 2, 3))


class World(NamedTuple):
    head: int = 3
    tag: int = 0
    snapshots: frozenset[Snapshot] = SNAPSHOTS
    planned: frozenset[int] | None = None
    to_delete: frozenset[int] | None = None
    files: frozenset[int] = frozenset({0, 1, 2, 3})
    slow_job: str = "none"  # its new file 4: none, written, committed
    left: int = 3


def needed_files(snapshots: Iterable[Snapshot]) -> frozenset[int]:
    return frozenset(file for _, files in snapshots for file in files)


def check(world: World) -> str | None:
    ids = {number for number, _ in world.snapshots}
    if world.head not in ids or (world.tag and world.tag not in ids):
        return "the snapshot of a ref was removed"
    if needed_files(world.snapshots) - world.files:
        return "a referenced file was deleted"
    return None


def deletion_steps(rules: Rules) -> Steps[World]:
    def steps(world: World) -> Iterator[tuple[str, World]]:
        yield from _expiry(world, rules)
        for number in sorted({number for number, _ in world.snapshots} - {world.head}):
            if world.left:
                yield f"rollback to {number}", world._replace(head=number, left=world.left - 1)
                yield f"tag {number}", world._replace(tag=number, left=world.left - 1)
        yield from _slow_job(world, rules)

    return steps


def _expiry(world: World, rules: Rules) -> Iterator[tuple[str, World]]:
    if world.planned is None and world.to_delete is None and world.left:
        planned = frozenset({number for number, _ in world.snapshots} - {world.head, world.tag})
        to_delete = None if rules.computes_after_commit else _unneeded_without(world.snapshots, planned)
        after = world._replace(planned=planned, to_delete=to_delete, left=world.left - 1)
        yield f"expiry plans to remove {sorted(planned)}", after
    if world.planned is not None:
        if rules.refuses_referenced and world.planned & {world.head, world.tag}:
            yield "expiry is refused", world._replace(planned=None, to_delete=None)
            return
        rest = frozenset(s for s in world.snapshots if s[0] not in world.planned)
        to_delete = world.to_delete
        if rules.computes_after_commit:
            to_delete = _unneeded_without(world.snapshots, world.planned)
        after = world._replace(planned=None, to_delete=to_delete, snapshots=rest)
        yield f"expiry removes {sorted(world.planned)}", after
    elif world.to_delete is not None:
        after = world._replace(files=world.files - world.to_delete, to_delete=None)
        yield f"expiry deletes files {sorted(world.to_delete)}", after


def _unneeded_without(snapshots: frozenset[Snapshot], removed: frozenset[int]) -> frozenset[int]:
    return needed_files(snapshots) - needed_files(s for s in snapshots if s[0] not in removed)


def _slow_job(world: World, rules: Rules) -> Iterator[tuple[str, World]]:
    if world.slow_job == "none":
        yield "a slow job writes file 4", world._replace(slow_job="written", files=world.files | {4})
    elif world.slow_job == "written":
        files_of = dict(world.snapshots)
        if world.head in files_of:
            snapshots = world.snapshots | {(4, files_of[world.head] | {4})}
            yield "the slow job commits snapshot 4", world._replace(slow_job="committed", snapshots=snapshots, head=4)
        if not rules.refuses_old_leases:
            yield "orphan removal deletes file 4, which is old enough", world._replace(files=world.files - {4})
