"""The ground: what Firn has last taken over of each Hive partition, and what a new look at it shows.

The table itself is no measure of what Hive has changed: merges replace registered files, and Hive still lists them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from catalog.iceberg.json import Json
from firn.protocol.locations import normalize_location

TICK_NS = 1_000_000_000
"""Modification times of many file systems have seconds."""
YOUNG_NS = 60 * TICK_NS
"""A file that was written to so shortly before it was listed may grow: no directory's time tells of that."""
NO_DIRECTORY_NS = 0
"""The time of a directory that is not there, where directories have times: one that was removed has changed."""


def is_hidden(name: str) -> bool:
    """Whether Hive and Spark pass over a file or directory of this name: unfinished work, markers, checksums."""
    return name.startswith(("_", ".")) or name.endswith("._COPYING_")


class Subdirectories(StrEnum):
    """Whether files in directories below that of a table or a partition count (`firn.hive.subdirectories`).

    Some of Hive's readers look into them and others do not, so only the table's owner knows.
    """

    ASK = "ask"
    READ = "read"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file of a partition's directory as a listing shows it; `path` is relative to the directory."""

    path: str
    size: int
    mtime_ns: int
    identity: str | None = None  # inode, file id or ETag, where the storage has one
    digest: int | None = field(default=None, compare=False)
    """Of the file's end, with its footer: known once it was read. A file that was moved is known again by it."""
    knew: int | None = field(default=None, compare=False)
    """The change sequence that the file contains, where it was moved and another partition's is not its own."""

    def same_as(self, other: ListedFile) -> bool:
        """Whether both may be the same file, as far as a listing can tell."""
        if (self.path, self.size, self.mtime_ns) != (other.path, other.size, other.mtime_ns):
            return False
        return self.identity is None or other.identity is None or self.identity == other.identity


@dataclass(frozen=True, slots=True)
class Subdirectory:
    """A directory below another that was looked into, and its own time just before; None where that proves nothing."""

    path: str
    mtime_ns: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """What a directory held at some moment after `began_ns`."""

    location: str
    files: tuple[ListedFile, ...]
    began_ns: int
    unique_identities: bool = False  # identities are never given to another file: ETags and file ids, not inodes
    subdirectories: tuple[str, ...] = ()
    """Directories in it that were not looked into."""
    below: tuple[Subdirectory, ...] = ()
    """Those below it that were, at every level; `files` has what they hold."""
    directory_mtime_ns: int | None = None
    is_being_written: bool = False
    """Whether it saw files without bytes, or unfinished work: closing such a file moves no directory's time."""
    keeps_times: bool = True
    """Whether files keep their times when they are moved there: object stores make copies."""

    def is_settled(self, file: ListedFile) -> bool:
        """Whether what replaces the file from now on will look different from it."""
        if self.unique_identities and file.identity is not None:
            return True
        return file.mtime_ns // TICK_NS < self.began_ns // TICK_NS

    @property
    def may_grow(self) -> bool:
        """Whether what it shows may become more without a sign: it has to be listed again."""
        return self.is_being_written or any(file.mtime_ns > self.began_ns - YOUNG_NS for file in self.files)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeSignals:
    """What the metastore says of a partition: cheap to ask for, and unable to prove that nothing moved."""

    location: str
    ddl_time: int | None = None
    statistics: tuple[str | None, str | None] = (None, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedDirectory:
    """A directory of a partition that the metastore does not point at: not yet, or not any more.

    `files` are those of it that were taken over, `published_through` is the change sequence that they contain.
    """

    location: str
    files: tuple[ListedFile, ...]
    published_through: int
    since_ns: int
    """When it was written, or left."""
    directory_mtime_ns: int | None = None
    """Its own time when it was last listed; None where that proves nothing."""
    rows: int | None = None
    """How many rows its files hold, where that was counted."""
    subdirectories: tuple[str, ...] = ()
    """Those in it whose files do not count."""
    below: tuple[Subdirectory, ...] = ()
    """Those below it whose files do, as they were last listed."""

    @property
    def bytes(self) -> int:
        """The size of all its files."""
        return sum(file.size for file in self.files)

    def to_json(self) -> Json:
        """As the database keeps it."""
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
            below=tuple(Subdirectory(*one) for one in stored["below"]),
        )


@dataclass(frozen=True, slots=True)
class FileLoss:
    """Files of a partition that were found gone at some time, and the change sequence that they contained."""

    at_ns: int
    knew: int
    files: tuple[ListedFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionBaseline:
    """What was last taken over of one partition.

    `published_through` is the change sequence that its files contain.  `settled` is False while a later look must list
    the directory whatever the signals say.
    """

    signals: ChangeSignals
    files: tuple[ListedFile, ...]
    published_through: int = 0
    settled: bool = True
    directory_mtime_ns: int | None = None
    subdirectories: tuple[str, ...] = ()
    """Those that were there and not looked into."""
    below: tuple[Subdirectory, ...] = ()
    """Those that were looked into, at every level."""
    lost_ns: int | None = None
    """When files of it were last found gone, or files that another partition had lost were found in it."""
    lost: tuple[FileLoss, ...] = ()
    """Those that were found gone then, or not much earlier: they may come elsewhere."""
    is_dropped: bool = False
    """Whether Hive has no such partition: it is remembered for as long as it may come back unchanged."""
    appended_through: int = 0
    """The change sequence from which on base holds the rows of all its files; before that some are in change alone."""
    publishing: WatchedDirectory | None = None
    """What base stands on already, and the metastore is still to be pointed at."""
    watched: tuple[WatchedDirectory, ...] = ()
    """Directories that it pointed at before: writers that knew them may still write there."""

    @property
    def location(self) -> str:
        return self.signals.location

    def at(self, now_ns: int, *, overwrite_ns: int) -> PartitionBaseline | None:
        """Without what is over: losses older than an overwrite may take; None for one that was dropped before that."""
        if self.lost_ns is not None and now_ns - self.lost_ns < overwrite_ns:
            lost = tuple(one for one in self.lost if now_ns - one.at_ns < overwrite_ns)
            return self if len(lost) == len(self.lost) else replace(self, lost=lost)
        if self.is_dropped and not (self.watched or self.publishing):
            return None
        return self.without_losses()

    def without_losses(self) -> PartitionBaseline:
        """Once nothing that comes belongs to what went."""
        return self if self.lost_ns is None else replace(self, lost_ns=None, lost=())

    def losing(self, files: tuple[ListedFile, ...], now_ns: int) -> tuple[FileLoss, ...]:
        """Its losses, and these files with them."""
        return (*self.lost, FileLoss(now_ns, self.published_through, files)) if files else self.lost

    def with_digests(self, digests: Sequence[int]) -> PartitionBaseline:
        """With what its files are known again by, in their order; 0 where that is not known."""
        pairs = zip(self.files, digests, strict=True)
        return replace(self, files=tuple(replace(file, digest=one or None) for file, one in pairs))

    def left(self, now_ns: int) -> WatchedDirectory:
        """The directory that it is at, once the metastore points elsewhere."""
        return WatchedDirectory(
            location=self.location,
            files=self.files,
            published_through=self.published_through,
            since_ns=now_ns,
            subdirectories=self.subdirectories,
            below=self.below,
        )

    def switched(self, signals: ChangeSignals, now_ns: int) -> PartitionBaseline:
        """Once the metastore points at what was published, if anything was; these are what it says since."""
        if self.publishing is None:
            return self
        left = () if self.is_dropped else (self.left(now_ns),)
        return PartitionBaseline(
            signals=signals,
            files=self.publishing.files,
            published_through=self.publishing.published_through,
            settled=False,
            watched=(*self.watched_but(self.publishing.location), *left),
        )

    def given_up(self, now_ns: int) -> PartitionBaseline:
        """Once nobody will point the metastore at what was published, unless somebody does so already.

        Another server may, or a request without an answer: then it is known what lies there.
        """
        if self.publishing is None:
            return self
        watched = (*self.watched, replace(self.publishing, since_ns=now_ns))
        return replace(self, publishing=None, settled=False, watched=watched)

    def with_watched(self, directory: WatchedDirectory) -> PartitionBaseline:
        """With what is known now of a directory that it has left."""
        watched = tuple(directory if one.location == directory.location else one for one in self.watched)
        return replace(self, watched=watched)

    def without_watched(self, location: str) -> PartitionBaseline:
        """Once nobody can know a directory any more that it has left."""
        return replace(self, watched=tuple(one for one in self.watched if one.location != location))

    def watched_but(self, location: str) -> tuple[WatchedDirectory, ...]:
        """The directories that it has left, without the one that it is at; metastores spell places as they like."""
        return tuple(one for one in self.watched if normalize_location(one.location) != normalize_location(location))

    def back_at(self, location: str, now_ns: int) -> PartitionBaseline:
        """Once the metastore points at a directory again that it had left; as it is when it has left none of this name.

        A writer has put its partition back as it knew it, or has overwritten what it did not know to be old.
        """
        found = next(
            (one for one in self.watched if normalize_location(one.location) == normalize_location(location)), None
        )
        if found is None or self.is_dropped:
            return self
        return replace(
            self,
            signals=ChangeSignals(location=location),
            files=found.files,
            published_through=found.published_through,
            settled=False,
            directory_mtime_ns=None,
            subdirectories=found.subdirectories,
            below=found.below,
            watched=(*self.watched_but(location), self.left(now_ns)),
        )

    def dropped(self, now_ns: int) -> PartitionBaseline:
        """Once Hive has the partition no more."""
        return replace(self, files=(), lost_ns=now_ns, lost=self.losing(self.files, now_ns), is_dropped=True)

    def to_json(self) -> Json:
        """As the database keeps it: short, because there is one for each of perhaps 100,000 partitions."""
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
            "lost": [[one.at_ns, one.knew, _files_json(one.files)] for one in self.lost],
            "dropped": self.is_dropped,
            "appended": self.appended_through,
            "publishing": self.publishing and self.publishing.to_json(),
            "watched": [one.to_json() for one in self.watched],
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
            below=tuple(Subdirectory(*one) for one in stored["below"]),
            lost_ns=stored["lost_at"],
            lost=tuple(
                FileLoss(at, knew, tuple(ListedFile(*one) for one in files)) for at, knew, files in stored["lost"]
            ),
            is_dropped=stored["dropped"],
            appended_through=stored["appended"],
            publishing=stored["publishing"] and WatchedDirectory.from_json(stored["publishing"]),
            watched=tuple(WatchedDirectory.from_json(one) for one in stored["watched"]),
        )


def _files_json(files: Iterable[ListedFile]) -> list[list[object]]:
    return [_file_json(file) for file in files]


def _file_json(file: ListedFile) -> list[object]:
    """Without what is mostly unknown: there may be a million of them."""
    told = [file.path, file.size, file.mtime_ns, file.identity]
    if file.knew is not None:
        return [*told, file.digest, file.knew]
    return told if file.digest is None else [*told, file.digest]


def _below_json(below: Iterable[Subdirectory]) -> list[list[object]]:
    return [[one.path, one.mtime_ns] for one in below]


def build_first_baseline(signals: ChangeSignals, listing: Listing) -> PartitionBaseline | None:
    """The ground of a partition that is taken over whole; None while a file of it may still be replaced unseen."""
    if not all(listing.is_settled(file) for file in listing.files):
        return None
    return build_next_baseline(signals, listing, listing.files, published_through=0)


def build_next_baseline(
    signals: ChangeSignals, listing: Listing, taken: Iterable[ListedFile], *, published_through: int
) -> PartitionBaseline:
    """The ground once these files of a listing have been taken over."""
    files = tuple(sorted(taken, key=lambda file: file.path))
    began = listing.began_ns
    times = [signals.ddl_time * TICK_NS if signals.ddl_time is not None else 0, listing.directory_mtime_ns or 0]
    times += [one.mtime_ns or 0 for one in listing.below]
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
    """Why the partition's directory has to be listed, or None when every signal is as it was."""
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
