"""A linked table compared with what Hive has now: three-way, against the ground of the last sync."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from catalog.hive.drift import (
    Additions,
    Drift,
    Dropped,
    Held,
    New,
    Postponed,
    Rebuild,
    Unchanged,
    drift,
    late_news,
    regrouped,
)
from catalog.hive.eligibility import BlockerCode, blocked_partitions, blockers
from catalog.hive.ground import Directory, Ground, ListedFile, why_list
from catalog.hive.model import HiveTable
from catalog.ports.hive import TableFiles
from server.service.hive.state import HiveState, Unit, list_units

Changed = Additions | New | Rebuild | Dropped


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """How long things last on Hive's side: no matter to a plain table that was never published."""

    overwrite_ns: int = 0
    """An overwrite, during which what comes into a partition belongs to what went."""
    watch_ns: int = 0
    """A writer that knows where a partition was before it was published elsewhere."""

    def is_over(self, directory: Directory, now_ns: int) -> bool:
        """Whether nobody can know a directory any more that was left."""
        return now_ns - directory.since_ns > self.watch_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Late:
    """Files that came to a directory which a partition was at before."""

    name: str
    files: tuple[ListedFile, ...]
    directory: Directory
    """As it is known once they are taken over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What one look at all partitions has found."""

    changed: dict[str, Changed] = field(default_factory=dict)
    refreshed: dict[str, Ground] = field(default_factory=dict)
    """Grounds to be renewed though nothing is to be taken over: their signals moved, or they have settled."""
    postponed: dict[str, str] = field(default_factory=dict)
    young: dict[str, str] = field(default_factory=dict)
    """Partitions to which files came that wait for the next look, the others being taken over; and why."""
    held: dict[str, str] = field(default_factory=dict)
    """Partitions that cannot be taken over as they are, and why; the others are."""
    units: dict[str, Unit] = field(default_factory=dict)
    listed: int = 0
    began_ns: int = 0
    forgotten: tuple[str, ...] = ()
    """Dropped partitions that need not be remembered any more."""
    is_sweep: bool = False
    """Whether every directory was listed, whatever the signals say."""
    late: list[Late] = field(default_factory=list)
    """Files that came to directories which the metastore does not point at any more."""
    unwatched: list[str] = field(default_factory=list)
    """Such directories that need not be looked at again."""
    differs: str | None = None
    """What of the columns differs that somebody has to decide."""
    overwritten: dict[str, str] = field(default_factory=dict)
    """Partitions of which such a directory was overwritten, each with the directory."""

    @property
    def is_all_quiet(self) -> bool:
        """Whether there is nothing to take over."""
        return not (self.changed or self.late or self.overwritten)

    @property
    def rebuilds(self) -> dict[str, Changed]:
        """Partitions that saw more than additions (rule 3.1): until they are built anew, base may lack files."""
        return {name: one for name, one in self.changed.items() if isinstance(one, Rebuild | Dropped)}

    @property
    def sentence(self) -> str | None:
        """The difference in words; None when there is none."""
        if not self.changed and not self.late:
            return None
        words = {Additions: "new files", New: "new", Rebuild: "rewritten or moved", Dropped: "dropped"}
        counts = {word: sum(isinstance(one, kind) for one in self.changed.values()) for kind, word in words.items()}
        said = [f"{word}: {count}" for word, count in counts.items() if count]
        late = [f"written to where they were before: {len({one.name for one in self.late})}"] if self.late else []
        return "partitions " + ", ".join([*said, *late])

    @property
    def trouble(self) -> str | None:
        """All that is not taken over, in words; None when there is nothing."""
        return "; ".join(one for one in (self.differs, self.held_back) if one) or None

    @property
    def held_back(self) -> str | None:
        """What is not taken over until somebody has mended it, in words; None when there is nothing."""
        if not self.held:
            return None
        name, why = next(iter(self.held.items()))
        partition = f"partition {name}" if name else "the table"
        others = f"; {len(self.held) - 1} more partitions wait too" if len(self.held) > 1 else ""
        return f"{partition} is not taken over: {why}{others}"


def why_unfit(link: Mapping[str, Any], table: HiveTable) -> str | None:
    """Why the Hive table cannot be followed at all as it is now; None when it can.

    What was asked before the upgrade may have become true since, and the table may have been made anew.
    """
    before = [(name.lower(), kind) for name, kind, _ in link["partition_columns"]]
    now = [(column.name.lower(), column.type) for column in table.partition_columns]
    if before != now:
        return (
            f"Hive partitions {table.full_name} by {_columns(now)}, the table here is partitioned by "
            f"{_columns(before)}; nothing was changed. "
            "Give the Hive table the partition columns that it had, or another name."
        )
    # A column's type is a matter of its column alone.
    found = [one for one in blockers(table, ()) if one.code is not BlockerCode.COLUMN_TYPE]
    return f"{found[0].message}; nothing is taken over until the Hive table is as it was" if found else None


def _columns(columns: Sequence[tuple[str, str]]) -> str:
    return f"({', '.join(f'{name} {kind}' for name, kind in columns)})" if columns else "nothing"


def look(
    state: HiveState,
    grounds: Mapping[str, Ground],
    files: TableFiles,
    *,
    everything: bool,
    when: Times = Times(),
    given: int = 0,
) -> Looked:
    """Compare every partition, listing only those that some signal speaks for, or all if `everything`.

    Signals can lie still while files come (architecture section 6): a directory's own time is asked where it has one.
    `given` is the change sequence that Hive has been given.
    """
    began_ns = time.time_ns()
    known = {
        name: one for name, ground in grounds.items() if (one := ground.at(began_ns, overwrite_ns=when.overwrite_ns))
    }
    blocked = blocked_partitions(state.table, state.partitions)
    found = Looked(
        units={unit.name: unit for unit in state.units},
        held={name: f"{one.message}. {one.advice}" for name, one in blocked.items()},
        began_ns=began_ns,
        is_sweep=everything,
        forgotten=tuple(grounds.keys() - known.keys()),
    )
    to_list = [
        unit
        for unit in found.units.values()
        if unit.name not in found.held and (everything or _speaks(unit, known.get(unit.name), files))
    ]
    results: dict[str, Drift | None] = {}
    for unit, listing in list_units(files, to_list):
        results[unit.name] = result = drift(known.get(unit.name), unit.signals, listing, given=given)
        if isinstance(result, Unchanged | Additions) and (fresh := len(listing.files) - len(result.ground.files)):
            found.young[unit.name] = f"{fresh} files are too young to be told from what may replace them"
    for name in known.keys() - found.units.keys():
        results[name] = drift(known[name], None, None)
    if when.overwrite_ns:
        results = regrouped(results, known.values(), began_ns)
    for name, result in results.items():
        _note(found, name, result, grounds)
    _look_back(found, known, files, when)
    return replace(found, listed=len(to_list))


def _look_back(found: Looked, known: Mapping[str, Ground], files: TableFiles, when: Times) -> None:
    """What writers did that knew a directory before its partition was published elsewhere (rule 3.5).

    Nobody can know it any more once it was watched for long enough; a last listing has shown that nothing came.
    """
    over = {one.location for ground in known.values() for one in ground.watched if when.is_over(one, found.began_ns)}
    watched = [
        (name, one)
        for name, ground in known.items()
        for one in ground.watched
        if found.is_sweep or one.location in over or _is_written(one, files)
    ]
    listings = files.listings([one.location for _, one in watched])
    for (name, one), listing in zip(watched, listings, strict=True):
        news = late_news(one, listing)
        ground = found.refreshed.get(name, known[name])
        if news.is_overwritten and name in found.units:
            found.overwritten.setdefault(name, one.location)
        elif news.come:
            found.late.append(Late(name=name, files=news.come, directory=news.directory))
        elif one.location in over and name not in found.changed and len(listing.files) <= len(one.files):
            found.refreshed[name] = ground.without_watched(one.location)
            found.unwatched.append(one.location)
        elif news.directory != one:
            found.refreshed[name] = ground.with_watched(news.directory)


def _is_written(directory: Directory, files: TableFiles) -> bool:
    time = files.modified_ns(directory.location)
    return time is None or time != directory.directory_mtime_ns


def _speaks(unit: Unit, ground: Ground | None, files: TableFiles) -> bool:
    modified_ns = None if ground is None else files.modified_ns(unit.location)
    return ground is None or ground.is_dropped or why_list(ground, unit.signals, modified_ns) is not None


def _note(found: Looked, name: str, result: Drift | None, grounds: Mapping[str, Ground]) -> None:
    match result:
        case Additions() | New() | Rebuild() | Dropped():
            found.changed[name] = result
        case Unchanged(ground=ground) if ground != grounds.get(name):
            found.refreshed[name] = ground
        case Postponed(reason=reason):
            found.postponed[name] = reason
            _list_again(found, name, grounds)
        case Held(reason=reason):
            found.held[name] = reason
            _list_again(found, name, grounds)
        case _:
            pass


def _list_again(found: Looked, name: str, grounds: Mapping[str, Ground]) -> None:
    """Whatever the signals say: where directories have no times, nothing else would tell of it until a sweep."""
    if name in grounds:
        found.refreshed[name] = replace(grounds[name], settled=False)
