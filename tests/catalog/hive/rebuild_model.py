"""A keyed table over several Hive partitions: Hive-side writers, changes, merges and rebuilds, as plain sets.

The project's model of one partition does not say what happens to a key that is in two. This one does: it repeats what
the sync job does, step by step, and `broken` compares it with what both sides together have said.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.catalog.hive.rebuild_state import TableState
from tests.catalog.hive.rebuild_values import Change, Found, Key, Part, Row, Watched, replayed


@dataclass
class Table(TableState):
    """Both sides of one table, and what they do to it."""

    def time_passes(self) -> None:
        """Long enough for any overwrite to end, and for a sync to have seen its end."""
        self.sync()
        self.refilling.clear()
        self.seen_refilling.clear()
        self.last_published = self.published_to_all
        most = max(self.published.values(), default=0)
        self.published = {
            part: through
            for part, through in self.published.items()
            if part in self.baseline or (self.rules.apart and through < most)
        }
        self.seen_lost.clear()
        self.away = [(name, rows, True) for name, rows, _ in self.away]

    def upgrade(self) -> None:
        self.baseline = {part: dict(files) for part, files in self.hive.items()}
        self.published = dict.fromkeys(self.baseline, 0)
        for part, files in self.hive.items():
            for rows in files.values():
                for key, value in rows.items():
                    self.base.setdefault(key, []).append(Row(part, value))

    def write(self, key: Key, row: Row | None, source: str | None = None) -> None:
        self.changes.append(Change(len(self.changes) + 1, key, row, source))
        self.free.discard(key)

    def merge(self) -> None:
        """A merge reads all of base: it fails while files of it are gone."""
        if self._gone():
            return
        self.base, self.merged = self.view(), len(self.changes)

    def publish(self, name: str) -> None:
        """Base stands on new files where it differs from what Hive lists; Hive is given them by `switch`."""
        if self.open or self._gone():
            return
        self.order.append(name)
        self.free |= self._unseen()
        before = self.published_to_all
        for part in (
            {row.part for rows in self.base.values() for row in rows} | self.baseline.keys() | self.published.keys()
        ):
            if part in self.seen_refilling and self.rules.refills:
                continue  # half of what belongs there may be missing
            if self._differs(part):
                self.published.setdefault(part, before)
                self.open[part] = (f"{name}{part}", self._in_base(part), self.merged)
                self.order.append(f"{name}{part}")
            else:
                self.published[part] = self.merged
                self.knew = {name: knew for name, knew in self.knew.items() if name not in self.baseline.get(part, {})}

    def switch(self, part: Part) -> None:
        """The metastore is pointed at the new directory; what is where it pointed goes on being watched."""
        name, rows, through = self.open.pop(part)
        baseline, here = self.baseline.get(part, {}), self.hive.get(part, {})
        if baseline.keys() - here.keys() or (here and not baseline):
            return  # Hive has changed it meanwhile: the publish is given up
        if self.origins.keys() & here.keys() - baseline.keys():
            return  # so it is wherever files came; that a moment is left in which they may come is tried with others
        if baseline:
            self.watched.append(Watched(part, dict(baseline), dict(here), self.published_of(part)))
        self.late |= here.keys() - baseline.keys()
        self.published_sources |= {f"{part}/{name}" for name in baseline} & self.live
        self.own.add(name)
        self.hive[part] = {name: rows}
        self.baseline[part] = {name: rows}
        self.published[part] = through

    def sync(self) -> None:
        for part in sorted(self.open):
            self.switch(part)
        gone = self._gone()
        rebuilt = gone | self._refilled() | self._moved_to(gone)
        if rebuilt:
            self.awake = {part for part, files in self.baseline.items() if files} | self.seen_refilling
            self.seen_refilling |= rebuilt
            self.refilling |= rebuilt
            through = min(self.published_to_all, *(self.published_of(part) for part in rebuilt))
            if self.rules.apart:
                through = min(through, *self.published.values())
            there = {
                name for files in [*self.hive.values(), *self.baseline.values()] for name in files
            }  # some are reread
            through = min([through, *(self.knew[name] for name in there & self.knew.keys())])
            self._rebuild({part: self._build_content(part, gone) for part in rebuilt}, through)
            for part in rebuilt:
                self._known(part)
            self.sync()  # what is only added comes after, as upserts: it is newer than all changes there are
            return
        watched = self.watched if self.rules.watch else []
        late = next((watch for watch in watched if watch.is_overwritten), None)
        if late is not None:
            self._back_to(late)
            self.sync()
            return
        for part, files in self.hive.items():
            if self.trusts:
                self._register(part, files, self.baseline.get(part, {}))
            else:
                self._append(part, files, self.baseline.get(part, {}))
        for part in {*self.hive}:
            self._known(part)
        for watch in watched:
            self._append(watch.part, watch.files, watch.listed)
            watch.listed |= watch.files

    def _known(self, part: Part) -> None:
        """The partition is as Hive lists it; one that Hive has made was given what all others were."""
        self.last_published = self.published_to_all
        self.published.setdefault(part, self.published_to_all)
        self.baseline[part] = dict(self.hive.get(part, {}))
        if not self.baseline[part]:
            del self.baseline[part]

    def _back_to(self, watch: Watched) -> None:
        """A writer has overwritten a directory that it did not know to be old: the metastore is pointed there again."""
        part = watch.part
        self.watched.remove(watch)
        # Its writer knew less than others who have spoken since: what they have answered counts again.
        self.free |= {
            change.key for change in self.changes if change.seq in self.answered and change.seq > watch.published
        }
        if self.baseline.get(part) or self.hive.get(part):
            known, there = self.baseline.get(part, {}), self.hive.get(part, {})
            self.watched.append(Watched(part, dict(known), dict(there), self.published_of(part)))
        self.hive[part], self.baseline[part], self.published[part] = watch.files, watch.listed, watch.published

    def _append(self, part: Part, files: dict[str, dict[Key, int]], known: dict[str, dict[Key, int]]) -> None:
        for name in sorted(files.keys() - known.keys(), key=self.order.index):
            for key, value in files[name].items():
                self.write(key, Row(part, value), f"{part}/{name}")
            self.live.add(f"{part}/{name}")
            self.dead.discard(f"{part}/{name}")

    def _register(self, part: Part, files: dict[str, dict[Key, int]], known: dict[str, dict[Key, int]]) -> None:
        for name in files.keys() - known.keys():
            for key, value in files[name].items():
                self.base.setdefault(key, []).append(Row(part, value))

    def _unseen(self) -> set[Key]:
        """Keys that Hive's side has written and no sync has seen: whether before or after a publish nobody can tell."""
        looks = [(files, self.baseline.get(part, {})) for part, files in self.hive.items()]
        looks += [(watch.files, watch.listed) for watch in self.watched]
        return {key for files, known in looks for name in files.keys() - known.keys() for key in files[name]}

    def _differs(self, part: Part) -> bool:
        """Whether base has other rows there than Hive's files that it knows."""
        listed = [item for rows in self.baseline.get(part, {}).values() for item in rows.items()]
        return sorted(listed) != sorted(
            (key, row.value) for key, rows in self.base.items() for row in rows if row.part == part
        )

    def _gone(self) -> set[Part]:
        """Partitions that saw more than additions."""
        return {part for part, files in self.baseline.items() if files.keys() - self.hive.get(part, {}).keys()}

    def _added(self, part: Part) -> set[str]:
        return self.hive.get(part, {}).keys() - self.baseline.get(part, {}).keys()

    def _refilled(self) -> set[Part]:
        """Partitions that files have come to, soon after others went."""
        return {part for part in self.seen_refilling if self.rules.refills and self._added(part)}

    def _moved_to(self, gone: set[Part]) -> set[Part]:
        """Partitions that were given files which others have lost."""
        if not self.rules.moves:
            return set()
        self.seen_lost |= {
            name: self.published_of(part)
            for part in gone
            for name in self.baseline[part].keys() - self.hive.get(part, {}).keys()
        }
        known = {self._content_of(name) for name in self.seen_lost}
        if self.rules.copies:
            known |= {self._content_of(name) for files in self.baseline.values() for name in files}
            known |= {self._content_of(name) for watch in self.watched for name in watch.listed}
        moved = {
            part: {name for name in self._added(part) if self._content_of(name) in known} for part in sorted(self.hive)
        }
        if self.rules.moved_know:
            self.knew |= {name: self._knew(self._content_of(name)) for names in moved.values() for name in names}
        return {part for part, names in moved.items() if names}

    def _knew(self, content: str) -> int:
        """The changes that a file holds which was known elsewhere before it came where it is."""
        files = [(name, self.published_of(part)) for part, held in self.baseline.items() for name in held]
        files += [(name, watch.published) for watch in self.watched for name in watch.listed]
        files += [*self.seen_lost.items()]
        return min(self.knew.get(name, through) for name, through in files if self._content_of(name) == content)

    def _build_content(self, part: Part, gone: set[Part]) -> Found:
        """A file that another partition has lost just now is not new: whether its rows win was decided before.

        But for one whose rows went into the changes: these are left out from now on.
        """
        content = Found(dict(self.hive.get(part, {})), dict(self.baseline.get(part, {})))
        lost = {
            self._content_of(name)
            for watch in gone
            for name in self.baseline[watch].keys() - self.hive.get(watch, {}).keys()
            if f"{watch}/{name}" not in self.live
        }
        if self.rules.moved_are_known:
            content.known |= {name: rows for name, rows in content.files.items() if self._content_of(name) in lost}
        return content

    def _content_of(self, name: str) -> str:
        """By what a file is known again."""
        return self.origins.get(name, name) if self.rules.renames else name

    def _rebuild(self, parts: dict[Part, Found], through: int) -> None:
        vanished = {
            f"{part}/{name}" for part, content in parts.items() for name in content.known.keys() - content.files.keys()
        } & self.live
        self.live -= vanished
        self.dead = self.dead | vanished if self.rules.dead_for_good else vanished
        if self.rules.reread:
            again = {part for part in self.baseline.keys() - parts.keys() if self._differs(part)}
            parts = parts | {part: Found(dict(self.baseline[part]), dict(self.baseline[part])) for part in again}
        hive, added, knew = self._newest(parts)
        rest = {key: kept for key, rows in self.base.items() if (kept := [r for r in rows if r.part not in parts])}
        there = {(row.part, key) for key, rows in rest.items() for row in rows}
        there |= {(part, key) for part, content in parts.items() for rows in content.files.values() for key in rows}
        for key in hive.keys() & rest.keys():
            if key in added or not self.rules.taken_stay:
                del rest[key]
            else:
                del hive[key]
                knew.pop(key, None)
        since = [change for change in self.changes if change.seq > through or not self.rules.skip_published]
        alive = [change for change in since if change.source not in self.dead]
        keys = {
            change.key for change in alive if change.seq > self.merged or (change.row and change.row.part in parts)
        } | hive.keys()
        if self.rules.lost_keys:
            keys |= {change.key for change in since if change.source in self.dead}
        if self.rules.apart and self.rules.skip_published:
            before = {key: [hive[key]] if key in hive else rest.get(key, []) for key in hive.keys() | rest.keys()}
            keys -= self._shown_already(before, since, knew, there)
        baseline = rest | {key: [row] for key, row in hive.items()}
        self.base = replayed(baseline, [change for change in alive if change.key in keys])
        self.merged = len(self.changes)

    def _shown_already(
        self,
        before: dict[Key, list[Row]],
        since: list[Change],
        knew: dict[Key, int],
        there: set[tuple[Part, Key]],
    ) -> set[Key]:
        """Keys whose last change Hive knew, or knows by what it has left out."""
        last = {change.key: change for change in since if change.source not in self.dead}
        fell = {
            change.key
            for change in since
            if change.source in self.dead
            and change.key in last
            and change.seq > last[change.key].seq
            and change.seq > self.published_to(change.row.part if change.row else "")
        }
        return {
            key
            for key, change in last.items()
            if (change.row is None or change.seq <= self.published_to(change.row.part))
            and (
                any(change.seq <= knew.get(key, self.known_in(row.part)) for row in before.get(key, []))
                or (change.row and key not in fell and (change.row.part, key) not in there)
            )
        }

    def _newest(self, parts: dict[Part, Found]) -> tuple[dict[Key, Row], set[Key], dict[Key, int]]:
        """The rows that Hive lists there, one for each key; the keys whose files are new, and what moved ones knew."""
        best: dict[Key, tuple[bool, int, Row, str]] = {}
        for part, content in parts.items():
            for name, rows in content.files.items():
                is_new = name not in content.known
                for key, value in rows.items():
                    row_read = is_new, self.order.index(name), Row(part, value), name
                    best[key] = max(best.get(key, (False, -1, Row("", 0), "")), row_read)
        return (
            {key: row for key, (_, _, row, _) in best.items()},
            {key for key, (is_new, _, _, _) in best.items() if is_new},
            {key: self.knew[name] for key, (_, _, _, name) in best.items() if name in self.knew},
        )

    def settle(self) -> str | None:
        """Nobody writes any more: after syncs, a merge and a publish both sides show the same rows."""
        self.sync()
        if wrong := self.broken() or self.missing():
            return wrong
        self.time_passes()
        self.merge()
        before = self.view()
        self.publish("end")
        self.sync()
        listed = self._listed()
        if self.view() != before:
            return f"publishing has changed {before} to {self.view()}"
        return None if listed == before else f"Hive has {listed}, the view {before}"
