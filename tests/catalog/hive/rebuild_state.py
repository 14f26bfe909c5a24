"""What both sides of the table of rebuilds hold, and what every reader must find in it."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.catalog.hive.rebuild_values import Change, Key, Part, Row, Rules, Watched, replayed


@dataclass
class TableState:
    """What both sides of one table hold. Hive files are named; their names are never used again."""

    rules: Rules
    hive: dict[Part, dict[str, dict[Key, int]]]
    trusts: bool = False
    """Whether files that Hive's side adds are registered in base as they are: it promises that their keys are new."""
    baseline: dict[Part, dict[str, dict[Key, int]]] = field(default_factory=dict)
    base: dict[Key, list[Row]] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    merged: int = 0
    live: set[str] = field(default_factory=set)
    dead: set[str] = field(default_factory=set)
    order: list[str] = field(default_factory=list)
    """Files by when they were written."""
    refilling: set[Part] = field(default_factory=set)
    """Partitions that lost files a moment ago which a sync knew, or were given such; forgotten when time passes."""
    seen_refilling: set[Part] = field(default_factory=set)
    """The same as syncs have seen it, and the files that they have lost, with the changes that these held."""
    seen_lost: dict[str, int] = field(default_factory=dict)
    awake: set[Part] = field(default_factory=set)
    """Partitions that Hive had at the last sync, or a moment before: what it makes of them it makes knowing them."""
    olds: set[str] = field(default_factory=set)
    """Files whose rows are none that Hive's side has added: the rest of an overwrite, or moved from elsewhere."""

    origins: dict[str, str] = field(default_factory=dict)
    """Names of files that were moved or copied, each with the name under which the file was written."""
    knew: dict[str, int] = field(default_factory=dict)
    """The changes that moved files hold: those of the partition that they were written for."""
    copied: set[tuple[Key, int]] = field(default_factory=set)
    """Rows of files that were copied: a copy wins over rows that the file had lost to, as any file that comes does.

    It must, because the file that it was made of may go, and nobody reads the copy again then.
    """
    away: list[tuple[str, dict[Key, int], bool]] = field(default_factory=list)
    """Files that were taken out of the table, and whether that was so long ago that they are forgotten."""
    lost: dict[str, set[Key]] = field(default_factory=dict)
    """The keys of files that are gone."""
    published: dict[Part, int] = field(default_factory=dict)
    """The changes that each partition's listed files contain."""
    last_published: int = 0
    """The same, as it was when there was a partition."""
    open: dict[Part, tuple[str, dict[Key, int], int]] = field(default_factory=dict)
    """Partitions whose new files base stands on, and that the metastore has not been pointed at yet."""
    watched: list[Watched] = field(default_factory=list)
    answered: set[int] = field(default_factory=set)
    """Changes that Hive was given and that its side has then spoken against."""
    free: set[Key] = field(default_factory=set)
    """Keys of which Hive's side has spoken while a publish was half done: either side's word may count."""
    late: set[str] = field(default_factory=set)
    """Files that were written to a directory after the metastore was pointed elsewhere."""
    lost_late: set[Key] = field(default_factory=set)
    """Keys of files that were taken away where the metastore did not point any more: a publish may show them still."""
    cleared: set[str] = field(default_factory=set)
    """Sources that somebody has cleared away where nobody reads any more: that says nothing of their rows."""
    own: set[str] = field(default_factory=set)
    """Files that were published: their rows are as old as what they were made of."""
    published_sources: set[str] = field(default_factory=set)
    """Sources whose files a publish has replaced: their rows are in what it wrote."""

    @property
    def published_to_all(self) -> int:
        """The changes that Hive has been given, whatever partition they are about."""
        return min((self.published[part] for part in self.baseline), default=self.last_published)

    def published_of(self, part: Part) -> int:
        """The changes that Hive was given in a partition; in one that it has made, those that all others have."""
        return self.published.get(part, self.published_to_all)

    def published_to(self, part: Part) -> int:
        """The changes that one partition's files contain; of one that nobody knows, all that were ever given."""
        return self.published.get(part, max([self.last_published, *self.published.values()]))

    def known_in(self, part: Part) -> int:
        """The changes that whoever wrote what Hive lists there could know; in a new partition, what all had."""
        return self.published_of(part) if part in self.awake else self.published_to_all

    def loses(self, part: Part, names: set[str], watched: Watched | None = None) -> None:
        """Hive's side takes files away; of those that no sync has seen nobody knows."""
        files = watched.files if watched else self.hive[part]
        self.lost |= {name: {*files[name]} for name in names}
        known = watched.listed if watched else self.baseline.get(part, {})
        if watched:
            self.published_sources -= {f"{part}/{name}" for name in names}
            self.lost_late |= {key for name in names for key in files[name]}
        elif names & known.keys():
            self.refilling.add(part)
        self.shows(part, {item for name in names for item in files[name].items()}, watched)

    def shows(self, part: Part, rows: set[tuple[Key, int]], watched: Watched | None = None) -> None:
        """Hive's side makes something of rows that it reads there, knowing the changes that it sees in them."""
        for key, value in rows:
            knew = watched.published if watched else self.published_of(part)
            same = [change.seq for change in self.changes if (change.key, change.row) == (key, Row(part, value))]
            if shown := [seq for seq in same if seq <= knew]:  # it has seen that change's row, and what was before it
                self.answers(part, key, watched, through=max(shown))

    def answers(self, part: Part, key: Key, watched: Watched | None = None, *, through: int | None = None) -> None:
        """Hive's side speaks of a key, knowing what it had been given there."""
        knew = watched.published if watched else self.published_of(part)
        knew = knew if through is None else min(knew, through)
        other = any(watch.part == part and watch is not watched and watch.is_overwritten for watch in self.watched)
        for change in self.changes:
            if change.key != key or change.seq > knew:
                continue
            if other or self._is_half_shown(change):
                self.free.add(key)
            elif self._is_shown(change, part):
                self.answered.add(change.seq)

    def _is_shown(self, change: Change, part: Part) -> bool:
        """Whether Hive's side can know a change that its `part` contains: a row that is put elsewhere it sees there."""
        return change.row is None or change.row.part == part or change.seq <= self.published_to(change.row.part)

    def _is_half_shown(self, change: Change) -> bool:
        """Whether a publish that is under way shows it: Hive's side may have read it, or not."""
        return any(self.published_to(part) < change.seq <= through for part, (_, _, through) in self.open.items())

    def view(self) -> dict[Key, list[Row]]:
        return replayed(self.base, [change for change in self.changes if change.seq > self.merged])

    def _in_base(self, part: Part) -> dict[Key, int]:
        return {key: row.value for key, rows in self.base.items() for row in rows if row.part == part}

    def missing(self) -> str | None:
        """A key that Hive's side lists once, and of which nobody has said anything, is in the view."""
        view = self.view()
        for listed, free in ((self._listed(), self.free | self.lost_late), (self._rows_of_hive(), self.free)):
            for key, rows in listed.items():
                if len(rows) == 1 and key not in view and key not in free and self._last_word(key) is None:
                    return f"{key} is gone though Hive's side has {rows}"
        return None

    def broken(self) -> str | None:
        """What is wrong once everything is synced."""
        view, listed = self.view(), self._listed()
        for key in view.keys() | listed.keys() | {change.key for change in self.changes}:
            rows = view.get(key, [])
            if len(rows) > 1:
                return f"{key} has {len(rows)} rows"
            if key in self.free:
                continue
            last = self._last_word(key)
            if last is not None and rows != ([last.row] if last.row else []):
                return f"{key} is {rows}, its last change says {last.row}"
            newest = listed.get(key, [])[-1:]
            theirs = self._rows_of_hive().get(key, [])
            accepted = [newest, theirs[-1:]]
            accepted += [
                [row] for row in listed.get(key, []) if newest and row.value == newest[0].value
            ]  # copies of it
            accepted += [[row] for row in rows if (key, row.value) in self.copied]
            if (
                any(key in watch.files.get(name, {}) for watch in self.watched for name in self.late)
                or key in self.lost_late
            ):
                accepted += [
                    [theirs_alone] for theirs_alone in theirs
                ]  # of two that overwrite at once, one of them not knowing where
            if last is None and rows and rows not in accepted and not self._was_beaten(key, rows[0]):
                return f"{key} is {rows}, the newest file that has it says {newest}"
        return None

    def _last_word(self, key: Key) -> Change | None:
        """The newest change of a key, of those that stand; what Hive had before is no word against one of ours."""
        there = {f"{part}/{name}" for part, files in self.hive.items() for name in files}
        there |= {f"{watch.part}/{name}" for watch in self.watched for name in watch.files}
        standing_changes = [
            change
            for change in self.changes
            if change.source is None
            or (
                change.source in there | self.published_sources | self.cleared
                and change.source.partition("/")[2] not in self.olds
            )
        ]
        last = next((change for change in reversed(standing_changes) if change.key == key), None)
        return None if last is None or last.seq in self.answered else last

    def _was_beaten(self, key: Key, row: Row) -> bool:
        """Whether all of a key's files lost to a newer one that is gone: then any of them may be the row again.

        Base holds none of theirs, and the others' partitions are not read (decision 12, "Price").
        """
        listed = [name for files in self.hive.values() for name, rows in files.items() if key in rows]
        gone = [name for name, keys in self.lost.items() if key in keys]
        newest = max(map(self.order.index, listed), default=-1)
        return row in self._listed().get(key, []) and any(self.order.index(name) > newest for name in gone)

    def _listed(self) -> dict[Key, list[Row]]:
        """What Hive lists of each key, oldest file first."""
        return self._rows([(name, part, rows) for part, held in self.hive.items() for name, rows in held.items()])

    def _rows_of_hive(self) -> dict[Key, list[Row]]:
        """What Hive's side itself has written and lists, or has written where it had not seen a switch."""
        files = [(name, part, rows) for part, held in self.hive.items() for name, rows in held.items()]
        files += [
            (name, watch.part, watch.files[name]) for watch in self.watched for name in watch.files.keys() & self.late
        ]
        return self._rows([file for file in files if file[0] not in self.own])

    def _rows(self, files: list[tuple[str, Part, dict[Key, int]]]) -> dict[Key, list[Row]]:
        rows_by_key: dict[Key, list[Row]] = {}
        for _, part, rows in sorted(files, key=lambda file: self.order.index(file[0])):
            for key, value in rows.items():
                rows_by_key.setdefault(key, []).append(Row(part, value))
        return rows_by_key
