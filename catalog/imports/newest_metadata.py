"""Which metadata file of a directory is the table's newest: told where it can be told, and never guessed.

Numbers in names rise with each commit, but not always: commits that failed leave files with a number that a later
commit took as well, a table that moved between catalogs may count from 0 again, and a dropped table leaves its files
to the next one of its name. What decides then is what the files say of themselves: each names those it came from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from catalog.iceberg.json import Json, children, integer, text

_NAME = re.compile(r"(?:v(?P<hadoop>\d{1,9})|(?P<number>\d{1,9})-[^/]+?)(?:\.gz)?\.metadata\.json(?:\.gz)?")
MOST_SUSPECTS = 200
"""Files of other histories that are read before the directory is given back to a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataFile:
    """A metadata file as a listing shows it; `is_hadoop` are those called `v3.metadata.json`."""

    name: str
    number: int
    is_hadoop: bool
    mtime_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a metadata file says about which table it is and where it stands in its history."""

    uuid: str
    location: str
    updated_ms: int
    past: frozenset[str]
    is_view: bool
    content: Json = field(default_factory=dict, repr=False)
    """All that it says: two files that say the same are one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestMetadata:
    """The newest file, and newer ones by number that nobody can read: writes that never ended."""

    name: str
    header: Header
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ambiguous:
    """Nobody but the table's owner knows which of these is it."""

    reason: str
    names: tuple[str, ...]


Read = Callable[[str], Header | None]


def parse_metadata_name(name: str, mtime_ns: int = 0) -> MetadataFile | None:
    """The file as its name tells; None for one that is no metadata file."""
    found = _NAME.fullmatch(name)
    if found is None:
        return None
    number = found["hadoop"] or found["number"]
    return MetadataFile(name=name, number=int(number), is_hadoop=found["hadoop"] is not None, mtime_ns=mtime_ns)


def read_version_number(metadata_location: str) -> int:
    """The number in a metadata file's name, 0 where it has none: what the next commit counts on from."""
    parsed = parse_metadata_name(strip_metadata_suffix(metadata_location))
    return 0 if parsed is None else parsed.number


def strip_metadata_suffix(location: str) -> str:
    """The last part of a location."""
    return location.rpartition("/")[2]


def read_header(metadata: Json) -> Header:
    """Of a table's or a view's metadata; Invalid when it is neither."""
    where = "metadata"
    if "view-uuid" in metadata:
        moments = [integer(one, "timestamp-ms", "version log") for one in children(metadata, "version-log", where)]
        uuid, updated_ms, past = text(metadata, "view-uuid", where), max(moments, default=0), frozenset[str]()
    else:
        log = children(metadata, "metadata-log", where) if metadata.get("metadata-log") is not None else []
        uuid, updated_ms = text(metadata, "table-uuid", where), integer(metadata, "last-updated-ms", where)
        past = frozenset(strip_metadata_suffix(text(one, "metadata-file", "metadata log")) for one in log)
    return Header(
        uuid=uuid.lower(),
        location=text(metadata, "location", where),
        updated_ms=updated_ms,
        past=past,
        is_view="view-uuid" in metadata,
        content=metadata,
    )


def find_newest(files: Sequence[MetadataFile], hint: int | None, read: Read) -> NewestMetadata | Ambiguous | None:
    """The newest of a directory's metadata files; None when none can be read. `read` gives None for a damaged file.

    `hint` is what Hadoop's `version-hint.text` says. Of an orderly directory one file is read.
    """
    by_name = {file.name: file for file in files}
    tops, unreadable = _tops(files, read)
    if not tops:
        return None
    lead = max(tops, key=lambda name: tops[name].updated_ms)
    header = tops[lead]
    while True:
        outcome = _challenged(by_name, lead, header, tops.keys() - {lead}, read)
        if outcome is None:
            break
        if isinstance(outcome, Ambiguous):
            return outcome
        lead, following = outcome
        header = replace(following, past=following.past | header.past)  # logs forget, but not all at once
    highest = max((file.number for file in files if file.is_hadoop), default=0)
    if by_name[lead].is_hadoop and hint is not None and hint > highest:
        return Ambiguous(reason=f"version-hint.text names version {hint}, whose file is not there", names=(lead,))
    newer = tuple(name for name in unreadable if _rank(by_name[name]) > _rank(by_name[lead]))
    return NewestMetadata(name=lead, header=header, unreadable=newer)


def _rank(file: MetadataFile) -> tuple[bool, int]:
    return file.is_hadoop, file.number


def _tops(files: Sequence[MetadataFile], read: Read) -> tuple[dict[str, Header], list[str]]:
    """The readable files with the highest number of each way of naming, and what above them cannot be read."""
    tops: dict[str, Header] = {}
    unreadable: list[str] = []
    for is_hadoop in (False, True):
        found: int | None = None
        for file in sorted((one for one in files if one.is_hadoop is is_hadoop), key=lambda one: -one.number):
            if found is not None and file.number < found:
                break
            header = read(file.name)
            if header is None:
                unreadable.append(file.name)
            else:
                tops[file.name], found = header, file.number
    return tops, unreadable


def _challenged(
    by_name: dict[str, MetadataFile], lead: str, header: Header, rivals: Iterable[str], read: Read
) -> tuple[str, Header] | Ambiguous | None:
    """A file that comes after the lead, or why nobody can say; None when the lead stands."""
    suspects = _suspects(by_name, lead, header, rivals)
    if len(suspects) > MOST_SUSPECTS:
        return Ambiguous(reason=f"{len(suspects)} metadata files are of another history than {lead}", names=(lead,))
    seen = {name: found for name in suspects if (found := read(name)) is not None}
    for name, found in seen.items():
        if lead in found.past:
            return name, found
    for name, found in seen.items():
        if _rank(by_name[name]) == _rank(by_name[lead]) and replace(found, past=header.past) != header:
            both = tuple(sorted((lead, name)))
            return Ambiguous(
                reason=f"two files have version {by_name[lead].number}: a commit may be in doubt", names=both
            )
        is_other = found.uuid != header.uuid
        if found.updated_ms > header.updated_ms or (is_other and found.updated_ms == header.updated_ms):
            both = tuple(sorted((lead, name)))
            return Ambiguous(reason=f"{name} was written after {lead}, and neither comes from the other", names=both)
    return None


def _suspects(by_name: dict[str, MetadataFile], lead: str, header: Header, rivals: Iterable[str]) -> list[str]:
    """Files that could be newer than the lead: it does not name them as its past, and its log reaches back to them.

    The log forgets: of files older than all it names, those that were written after the lead are looked at as well.
    """
    own = by_name[lead]
    known = [
        by_name[name].number for name in header.past if name in by_name and by_name[name].is_hadoop == own.is_hadoop
    ]
    oldest = min([own.number, *known])
    rival_names = set(rivals)
    return [
        name
        for name, file in by_name.items()
        if name != lead
        and name not in header.past
        and (
            name in rival_names
            or file.mtime_ns > own.mtime_ns
            or (file.is_hadoop == own.is_hadoop and file.number >= oldest)
        )
    ]
