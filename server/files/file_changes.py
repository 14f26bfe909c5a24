"""Compares the files of two snapshots, with the deletes that apply to them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator

from catalog.errors import Invalid
from catalog.ports.scan import FileChange, FileTask
from catalog.scan.deletes import DeleteFile


def pair_files(before: Iterable[FileTask], after: Iterable[FileTask]) -> Iterator[FileChange]:
    """Pair files by location, and leave out those with the same deletes. `before` is held in memory.

    A snapshot may list a file twice: then its rows count twice, and each line has a partner of its own.
    """
    left = dict(_number(before))
    for key, task in _number(after):
        earlier = left.pop(key, None)
        if earlier is None or identify_deletes(earlier) != identify_deletes(task):
            yield FileChange(before=earlier, after=task)
    yield from (FileChange(before=task, after=None) for task in left.values())


def limit_files(tasks: Iterable[FileTask], most: int) -> Iterator[FileTask]:
    """The same files; Invalid at the first one above the limit."""
    for count, task in enumerate(tasks):
        if count == most:
            raise Invalid(
                f"the manifests of more than {most} files changed between the two snapshots",
                hint="read the table as a whole, and compare snapshots that follow each other",
            )
        yield task


def identify_deletes(task: FileTask) -> frozenset[Hashable]:
    """What tells the deletes of a file from others. Several deletion vectors lie in one file."""
    return frozenset(map(_identify, task.deletes))


def _identify(delete: DeleteFile) -> Hashable:
    return delete.content["file-path"], delete.content.get("content-offset")


def _number(tasks: Iterable[FileTask]) -> Iterator[tuple[Hashable, FileTask]]:
    times = Counter[str]()
    for task in tasks:
        location = str(task.content["file-path"])
        yield (location, times[location]), task
        times[location] += 1
