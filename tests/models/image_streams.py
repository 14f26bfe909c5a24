"""The steps of a stream that upserts (docs/protocols.md, rules 5.10 and 5.11): its checkpoints become changes.

A checkpoint has equality deletes and visible rows. A job that restarts knows its checkpoints, but not which of them it
has committed: it looks for its last commit among the ancestors of the served image.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tests.models.image_commits import append_changes, spend
from tests.models.images import Change, Rules, Stream, World


class Checkpoint(NamedTuple):
    """What one checkpoint of a stream sends."""

    deleted: tuple[str, ...]
    """The keys of its equality deletes."""
    rows: tuple[Change, ...] = ()
    """The rows that its own position deletes do not hide."""


class StreamModel:
    def __init__(self, rules: Rules, checkpoints: tuple[Checkpoint, ...]) -> None:
        self._rules, self._checkpoints = rules, checkpoints

    def steps(self, world: World, left: dict[str, int]) -> Iterator[tuple[str, World]]:
        stream = world.stream
        if stream.next < len(self._checkpoints):
            numbers = self._choose(world)
            yield from self._commits(world, numbers, left)
            if left["combine"] and stream.is_in_doubt and stream.next + 1 < len(self._checkpoints):
                yield from self._commits(spend(world, "combine"), (*numbers, stream.next + 1), left)
        if left["forget"] and stream.listed:
            forgotten = stream._replace(listed=frozenset())
            yield "the snapshots of the stream expire", spend(world, "forget")._replace(stream=forgotten)

    def _choose(self, world: World) -> tuple[int, ...]:
        """The checkpoints that the job takes for uncommitted: a restarted one looks for its last commit."""
        stream = world.stream
        is_found = stream.is_in_doubt and self._rules.lists_last_commits and stream.next in stream.listed
        return () if is_found else (stream.next,)

    def _commits(self, world: World, numbers: tuple[int, ...], left: dict[str, int]) -> Iterator[tuple[str, World]]:
        stream, after = world.stream, (numbers[-1] if numbers else world.stream.next) + 1
        going_on = Stream(after, False, stream.listed | {*numbers}, stream.sent | {numbers})
        label = f"the stream commits {numbers}"
        if not numbers or (self._rules.knows_files and numbers in stream.sent):
            yield f"{label}: applied before", world._replace(stream=going_on)
            return
        if any(number in sent for number in numbers for sent in stream.sent):
            yield label, world._replace(stream=going_on, error="a checkpoint was committed twice")
            return
        committed = self._apply(world, numbers)
        yield label, committed._replace(stream=going_on)
        if left["crash"]:
            in_doubt = going_on._replace(next=numbers[0], is_in_doubt=True)
            yield f"{label}, and the job restarts", spend(committed, "crash")._replace(stream=in_doubt)

    def _apply(self, world: World, numbers: tuple[int, ...]) -> World:
        for number in numbers:
            deleted, rows = self._checkpoints[number]
            shown = {row.key for row in rows}
            is_left_out = self._rules.shown_rows_win
            deletes = tuple(Change(key, "p", "", "D") for key in deleted if not (is_left_out and key in shown))
            expected = append_changes(world, tuple(Change(key, "p", "", "D") for key in deleted) + rows)
            changes = (*rows, *deletes)  # the order within a commit is not the stream's
            world = append_changes(world, changes)._replace(log=expected.log) if changes else world
        return world
