"""Finds the newest metadata file of a directory; it never guesses.

Numbers in names grow with each commit, with exceptions. A failed commit leaves a file whose number a later commit also
takes. A table that moved between catalogs may count from 0 again. A dropped table leaves its files to the next table
of its name. Then the files themselves decide: each names its predecessors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from catalog.iceberg.json import Json, children, integer, text

_NAME = re.compile(r"(?:v(?P<hadoop>\d{1,9})|(?P<number>\d{1,9})-[^/]+?)(?:\.gz)?\.metadata\.json(?:\.gz)?")
MAX_SUSPECTS = 200
"""The largest number of files of other histories that it reads; beyond that, a user decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataFile:
    """A metadata file in a listing; `is_hadoop` is True for names such as `v3.metadata.json`."""

    name: str
    number: int
    is_hadoop: bool
    mtime_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The identity and the history of a metadata file."""

    uuid: str
    location: str
    updated_ms: int
    past: frozenset[str]
    is_view: bool
    content: Json = field(default_factory=dict, repr=False)
    """The complete content; two files with equal content are the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestMetadata:
    """The newest file, and unreadable files with higher numbers: writes that never ended."""

    name: str
    header: Header
    unreadable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ambiguous:
    """Only the table's owner can decide which of these files is the newest."""

    reason: str
    names: tuple[str, ...]


Read = Callable[[str], Header | None]


def parse_metadata_name(name: str, mtime_ns: int = 0) -> MetadataFile | None:
    """The metadata file of this name; None for any other file."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    number = match["hadoop"] or match["number"]
    return MetadataFile(name=name, number=int(number), is_hadoop=match["hadoop"] is not None, mtime_ns=mtime_ns)


def read_version_number(metadata_location: str) -> int:
    """The number in a metadata file's name, 0 without one. The next commit continues from it."""
    parsed = parse_metadata_name(strip_metadata_suffix(metadata_location))
    return 0 if parsed is None else parsed.number


def strip_metadata_suffix(location: str) -> str:
    """The last part of a location."""
    return location.rpartition("/")[2]


def read_header(metadata: Json) -> Header:
    """The header of a table's or a view's metadata; Invalid if it is neither."""
    where = "metadata"
    if "view-uuid" in metadata:
        moments = [integer(entry, "timestamp-ms", "version log") for entry in children(metadata, "version-log", where)]
        uuid, updated_ms, past = text(metadata, "view-uuid", where), max(moments, default=0), frozenset[str]()
    else:
        log = children(metadata, "metadata-log", where) if metadata.get("metadata-log") is not None else []
        uuid, updated_ms = text(metadata, "table-uuid", where), integer(metadata, "last-updated-ms", where)
        past = frozenset(strip_metadata_suffix(text(entry, "metadata-file", "metadata log")) for entry in log)
    return Header(
        uuid=uuid.lower(),
        location=text(metadata, "location", where),
        updated_ms=updated_ms,
        past=past,
        is_view="view-uuid" in metadata,
        content=metadata,
    )


def find_newest(files: Sequence[MetadataFile], hint: int | None, read: Read) -> NewestMetadata | Ambiguous | None:
    """The newest of a directory's metadata files; None if none is readable. `read` gives None for a damaged file.

    `hint` is the version of Hadoop's `version-hint.text`. In an orderly directory it reads one file.
    """
    by_name = {file.name: file for file in files}
    tops, unreadable = _read_highest(files, read)
    if not tops:
        return None
    lead = max(tops, key=lambda name: tops[name].updated_ms)
    header = tops[lead]
    while True:
        outcome = _find_challenger(by_name, lead, header, tops.keys() - {lead}, read)
        if outcome is None:
            break
        if isinstance(outcome, Ambiguous):
            return outcome
        lead, following = outcome
        header = replace(following, past=following.past | header.past)  # logs forget old entries, but not all at once
    highest = max((file.number for file in files if file.is_hadoop), default=0)
    if by_name[lead].is_hadoop and hint is not None and hint > highest:
        return Ambiguous(reason=f"version-hint.text names version {hint}, whose file is not there", names=(lead,))
    newer = tuple(name for name in unreadable if _rank(by_name[name]) > _rank(by_name[lead]))
    return NewestMetadata(name=lead, header=header, unreadable=newer)


def _rank(file: MetadataFile) -> tuple[bool, int]:
    return file.is_hadoop, file.number


def _read_highest(files: Sequence[MetadataFile], read: Read) -> tuple[dict[str, Header], list[str]]:
    """The readable files with the highest number of each naming scheme, and the unreadable files above them."""
    tops: dict[str, Header] = {}
    unreadable: list[str] = []
    for is_hadoop in (False, True):
        highest: int | None = None
        for file in sorted((file for file in files if file.is_hadoop is is_hadoop), key=lambda file: -file.number):
            if highest is not None and file.number < highest:
                break
            header = read(file.name)
            if header is None:
                unreadable.append(file.name)
            else:
                tops[file.name], highest = header, file.number
    return tops, unreadable


def _find_challenger(
    by_name: dict[str, MetadataFile], lead: str, header: Header, rivals: Iterable[str], read: Read
) -> tuple[str, Header] | Ambiguous | None:
    """A file that comes after the lead, or the reason why the order is unknown; None if the lead is the newest."""
    suspects = _list_suspects(by_name, lead, header, rivals)
    if len(suspects) > MAX_SUSPECTS:
        return Ambiguous(reason=f"{len(suspects)} metadata files are of another history than {lead}", names=(lead,))
    seen = {name: rival for name in suspects if (rival := read(name)) is not None}
    for name, rival in seen.items():
        if lead in rival.past:
            return name, rival
    for name, rival in seen.items():
        if _rank(by_name[name]) == _rank(by_name[lead]) and replace(rival, past=header.past) != header:
            both = tuple(sorted((lead, name)))
            return Ambiguous(
                reason=f"two files have version {by_name[lead].number}: the outcome of a commit may be unknown",
                names=both,
            )
        is_other = rival.uuid != header.uuid
        if rival.updated_ms > header.updated_ms or (is_other and rival.updated_ms == header.updated_ms):
            both = tuple(sorted((lead, name)))
            return Ambiguous(reason=f"{name} was written after {lead}, and neither comes from the other", names=both)
    return None


def _list_suspects(by_name: dict[str, MetadataFile], lead: str, header: Header, rivals: Iterable[str]) -> list[str]:
    """Files that could be newer than the lead: the lead does not name them as its past, though its log reaches back to
    them.

    The log forgets old entries. So files older than the whole log count too if they were written after the lead.
    """
    own = by_name[lead]
    suspects = [
        by_name[name].number for name in header.past if name in by_name and by_name[name].is_hadoop == own.is_hadoop
    ]
    oldest = min([own.number, *suspects])
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
