"""Baselines: the state of each Hive partition at its last sync.

The table's own files are no baseline: a merge replaces files that an upgrade registered, and Hive still lists them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from catalog.hive.listing import TICK_NS, ListedFile, Listing, Subdirectory
from catalog.iceberg.json import Json
from firn.protocol.locations import normalize_location


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSignals:
    """The metastore's facts about a partition. They are cheap to get, but cannot prove that nothing changed."""

    location: str
    ddl_time: int | None = None
    statistics: tuple[str | None, str | None] = (None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedDirectory:
    """A directory of a partition that the metastore does not point at: not yet, or no longer.

    `files` are its files that Firn took over; `published_through` is the change sequence that they contain.
    """

    location: str
    files: tuple[ListedFile, ...]
    published_through: int
    since_ns: int
    """When Firn wrote it, or when the metastore stopped pointing at it."""
    directory_mtime_ns: int | None = None
    """Its modification time when it was last listed; None if that proves nothing."""
    rows: int | None = None
    """The number of rows in its files, if it was counted."""
    subdirectories: tuple[str, ...] = ()
    """Sub-directories whose files do not count."""
    below: tuple[Subdirectory, ...] = ()
    """Sub-directories whose files count, as they were last listed."""

    @property
    def bytes(self) -> int:
        """The size of all its files."""
        return sum(file.size for file in self.files)

    def to_json(self) -> Json:
        """The JSON that the database stores."""
        return {
            "location": self.location,
            "files": _files_json(self.files),
            "published": self.published_through,
            "since": self.since_ns,
            "mtime": self.directory_mtime_ns,
            "rows": self.rows,
            "unread": list(self.subdirectories),
            "below": _below_json(self.below),
        }

    @classmethod
    def from_json(cls, stored: Json) -> WatchedDirectory:
        return cls(
            location=stored["location"],
            files=tuple(ListedFile(*file) for file in stored["files"]),
            published_through=stored["published"],
            since_ns=stored["since"],
            directory_mtime_ns=stored["mtime"],
            rows=stored["rows"],
            subdirectories=tuple(stored["unread"]),
            below=tuple(Subdirectory(*values) for values in stored["below"]),
        )


@dataclass(frozen=True, slots=True)
class FileLoss:
    """Files that a listing of a partition no longer showed, the time of that, and the change sequence in the files."""

    at_ns: int
    knew: int
    files: tuple[ListedFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionBaseline:
    """The state of one partition that Firn last took over.

    `published_through` is the change sequence that its files contain. `settled` is False while a later sync must list
    the directory whatever the signals say.
    """

    signals: ChangeSignals
    files: tuple[ListedFile, ...]
    published_through: int = 0
    settled: bool = True
    directory_mtime_ns: int | None = None
    subdirectories: tuple[str, ...] = ()
    """Sub-directories that were not listed."""
    below: tuple[Subdirectory, ...] = ()
    """Sub-directories that were listed, at every level."""
    lost_ns: int | None = None
    """When a listing last missed files of it, or showed files in it that another partition had lost."""
    lost: tuple[FileLoss, ...] = ()
    """The files that it lost then or shortly before. They may arrive in another partition."""
    is_dropped: bool = False
    """Whether Hive has dropped the partition. Firn remembers it as long as it may come back unchanged."""
    appended_through: int = 0
    """The change sequence from which base holds the rows of all its files. Before, some are only in change."""
    publishing: WatchedDirectory | None = None
    """The published directory whose files base has already, and at which the metastore must still be pointed."""
    watched: tuple[WatchedDirectory, ...] = ()
    """Directories at which the metastore pointed before. Writers that know them may still write there."""

    @property
    def location(self) -> str:
        return self.signals.location

    def forget_old_losses(self, now_ns: int, *, overwrite_ns: int) -> PartitionBaseline | None:
        """The baseline without losses that are older than the longest overwrite; None if it was dropped before that."""
        if self.lost_ns is not None and now_ns - self.lost_ns < overwrite_ns:
            lost = tuple(loss for loss in self.lost if now_ns - loss.at_ns < overwrite_ns)
            return self if len(lost) == len(self.lost) else replace(self, lost=lost)
        if self.is_dropped and not (self.watched or self.publishing):
            return None
        return self.without_losses()

    def without_losses(self) -> PartitionBaseline:
        """The baseline once no arriving file can belong to a lost one."""
        return self if self.lost_ns is None else replace(self, lost_ns=None, lost=())

    def add_loss(self, files: tuple[ListedFile, ...], now_ns: int) -> tuple[FileLoss, ...]:
        """Its losses and, with them, these files."""
        return (*self.lost, FileLoss(now_ns, self.published_through, files)) if files else self.lost

    def with_digests(self, digests: Sequence[int]) -> PartitionBaseline:
        """The baseline with the digests of its files, in their order; 0 is an unknown digest."""
        pairs = zip(self.files, digests, strict=True)
        return replace(self, files=tuple(replace(file, digest=digest or None) for file, digest in pairs))

    def to_watched(self, now_ns: int) -> WatchedDirectory:
        """Its directory as a watched one, once the metastore points elsewhere."""
        return WatchedDirectory(
            location=self.location,
            files=self.files,
            published_through=self.published_through,
            since_ns=now_ns,
            subdirectories=self.subdirectories,
            below=self.below,
        )

    def finish_publish(self, signals: ChangeSignals, now_ns: int) -> PartitionBaseline:
        """The baseline once the metastore points at the published directory, with the metastore's new signals."""
        if self.publishing is None:
            return self
        superseded = () if self.is_dropped else (self.to_watched(now_ns),)
        return PartitionBaseline(
            signals=signals,
            files=self.publishing.files,
            published_through=self.publishing.published_through,
            settled=False,
            watched=(*self.watched_except(self.publishing.location), *superseded),
        )

    def give_up_publish(self, now_ns: int) -> PartitionBaseline:
        """The baseline once this server no longer tries to point the metastore at the published directory.

        Firn keeps watching that directory: another server, or a request without an answer, may still point there.
        """
        if self.publishing is None:
            return self
        watched = (*self.watched, replace(self.publishing, since_ns=now_ns))
        return replace(self, publishing=None, settled=False, watched=watched)

    def with_watched(self, directory: WatchedDirectory) -> PartitionBaseline:
        """The baseline with the new state of a watched directory."""
        watched = tuple(directory if other.location == directory.location else other for other in self.watched)
        return replace(self, watched=watched)

    def without_watched(self, location: str) -> PartitionBaseline:
        """The baseline once no writer can know a watched directory any more."""
        return replace(self, watched=tuple(directory for directory in self.watched if directory.location != location))

    def watched_except(self, location: str) -> tuple[WatchedDirectory, ...]:
        """The watched directories except one, however the metastore spells its location."""
        path = normalize_location(location)
        return tuple(directory for directory in self.watched if normalize_location(directory.location) != path)

    def return_to(self, location: str, now_ns: int) -> PartitionBaseline:
        """The baseline once the metastore points at a watched directory again; unchanged for any other directory.

        A writer restored the partition as it knew it, or overwrote a directory that it did not know to be superseded.
        """
        path = normalize_location(location)
        target = next((directory for directory in self.watched if normalize_location(directory.location) == path), None)
        if target is None or self.is_dropped:
            return self
        return replace(
            self,
            signals=ChangeSignals(location=location),
            files=target.files,
            published_through=target.published_through,
            settled=False,
            directory_mtime_ns=None,
            subdirectories=target.subdirectories,
            below=target.below,
            watched=(*self.watched_except(location), self.to_watched(now_ns)),
        )

    def mark_dropped(self, now_ns: int) -> PartitionBaseline:
        """The baseline once Hive has dropped the partition."""
        return replace(self, files=(), lost_ns=now_ns, lost=self.add_loss(self.files, now_ns), is_dropped=True)

    def to_json(self) -> Json:
        """The JSON that the database stores. It is short, because a table may have 100,000 partitions."""
        return {
            "location": self.location,
            "ddl": self.signals.ddl_time,
            "stats": list(self.signals.statistics),
            "files": _files_json(self.files),
            "published": self.published_through,
            "settled": self.settled,
            "mtime": self.directory_mtime_ns,
            "unread": list(self.subdirectories),
            "below": _below_json(self.below),
            "lost_at": self.lost_ns,
            "lost": [[loss.at_ns, loss.knew, _files_json(loss.files)] for loss in self.lost],
            "dropped": self.is_dropped,
            "appended": self.appended_through,
            "publishing": self.publishing and self.publishing.to_json(),
            "watched": [directory.to_json() for directory in self.watched],
        }

    @classmethod
    def from_json(cls, stored: Json) -> PartitionBaseline:
        files, size = stored["stats"]
        return cls(
            signals=ChangeSignals(location=stored["location"], ddl_time=stored["ddl"], statistics=(files, size)),
            files=tuple(ListedFile(*file) for file in stored["files"]),
            published_through=stored["published"],
            settled=stored["settled"],
            directory_mtime_ns=stored["mtime"],
            subdirectories=tuple(stored["unread"]),
            below=tuple(Subdirectory(*values) for values in stored["below"]),
            lost_ns=stored["lost_at"],
            lost=tuple(
                FileLoss(at_ns, knew, tuple(ListedFile(*values) for values in files))
                for at_ns, knew, files in stored["lost"]
            ),
            is_dropped=stored["dropped"],
            appended_through=stored["appended"],
            publishing=stored["publishing"] and WatchedDirectory.from_json(stored["publishing"]),
            watched=tuple(WatchedDirectory.from_json(document) for document in stored["watched"]),
        )


def _files_json(files: Iterable[ListedFile]) -> list[list[object]]:
    return [_file_json(file) for file in files]


def _file_json(file: ListedFile) -> list[object]:
    """The values of a file without those at the end that are None, because there may be a million files."""
    values = [file.path, file.size, file.mtime_ns, file.identity]
    if file.knew is not None:
        return [*values, file.digest, file.knew]
    return values if file.digest is None else [*values, file.digest]


def _below_json(below: Iterable[Subdirectory]) -> list[list[object]]:
    return [[directory.path, directory.mtime_ns] for directory in below]


def build_first_baseline(signals: ChangeSignals, listing: Listing) -> PartitionBaseline | None:
    """The baseline of a whole new partition; None while one of its files may still be replaced unseen."""
    if not all(listing.is_settled(file) for file in listing.files):
        return None
    return build_next_baseline(signals, listing, listing.files, published_through=0)


def build_next_baseline(
    signals: ChangeSignals, listing: Listing, accepted: Iterable[ListedFile], *, published_through: int
) -> PartitionBaseline:
    """The baseline once the sync has taken over these files of a listing."""
    files = tuple(sorted(accepted, key=lambda file: file.path))
    began = listing.began_ns
    times = [signals.ddl_time * TICK_NS if signals.ddl_time is not None else 0, listing.directory_mtime_ns or 0]
    times += [subdirectory.mtime_ns or 0 for subdirectory in listing.below]
    return PartitionBaseline(
        signals=signals,
        files=files,
        published_through=published_through,
        settled=len(files) == len(listing.files)
        and all(time // TICK_NS < began // TICK_NS for time in times)
        and not listing.may_grow,
        directory_mtime_ns=listing.directory_mtime_ns,
        subdirectories=listing.subdirectories,
        below=listing.below,
    )


def find_listing_reason(
    baseline: PartitionBaseline | None, now: ChangeSignals, directory_mtime_ns: int | None = None
) -> str | None:
    """Find the reason to list a partition's directory; None if no signal has changed."""
    if baseline is None:
        return "new"
    if not baseline.settled:
        return "its last listing was not settled"
    if now.location != baseline.location:
        return "its location moved"
    if now.ddl_time != baseline.signals.ddl_time:
        return "Hive changed it"
    if now.statistics != baseline.signals.statistics:
        return "its statistics changed"
    if directory_mtime_ns is not None and directory_mtime_ns != baseline.directory_mtime_ns:
        return "its directory changed"
    return None
