"""Whether a table that was found may take its place in the catalog: pure, on facts of one moment."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from catalog.iceberg.json import Json
from catalog.imports.newest_metadata import Header, strip_metadata_suffix
from catalog.tables.relation import Relation, RelationKind
from firn.protocol.imports import EntryState
from firn.protocol.locations import lies_in, normalize_location


class ImportAction(StrEnum):
    """What is to be done for it."""

    ADD = "add"
    REPLACE = "replace"  # drop what has the name, which stays in its files, and add
    REFRESH = "refresh"  # move the pointer of what is there
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """What the person who asked allows."""

    overwrite: bool = False
    refresh: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Metadata that somebody wants to register."""

    metadata_location: str
    metadata: Json
    header: Header

    @property
    def kind(self) -> RelationKind:
        """What it would be."""
        return RelationKind.VIEW if self.header.is_view else RelationKind.TABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingTable:
    """What has the name now; no header for a keyed table, which has no metadata of its own."""

    relation: Relation
    header: Header | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is to be done, and what people are told."""

    act: ImportAction
    state: EntryState
    reason: str | None = None
    hint: str | None = None
    is_misplaced: bool = False
    """Whether its files lie where they may not: then nobody is told what its metadata says."""


@dataclass(frozen=True, slots=True)
class Misplaced:
    """Why a candidate's files may not lie where they lie: see catalog.locations.location_rule."""

    reason: str
    hint: str | None = None


def decide_import(
    candidate: Candidate, present: ExistingTable | None, misplaced: Misplaced | None, rules: ImportOptions
) -> Verdict:
    """What becomes of a candidate; nothing that it says is told of one that is misplaced."""
    if present is not None and present.relation.metadata_location == candidate.metadata_location:
        return Verdict(act=ImportAction.NOTHING, state=EntryState.THERE)
    if misplaced is not None:
        return Verdict(
            act=ImportAction.NOTHING,
            state=EntryState.CONFLICT,
            reason=misplaced.reason,
            hint=misplaced.hint,
            is_misplaced=True,
        )
    if present is not None and (present.relation.kind is not candidate.kind or present.header is None):
        reason = f"the name is taken by a {present.relation.kind}"
        return _conflict(reason, "rename or drop it, or import below another namespace with --into")
    if present is not None and present.header is not None and present.header.uuid == candidate.header.uuid:
        return _same(candidate, present.relation, present.header, rules)
    if present is None:
        return Verdict(act=ImportAction.ADD, state=EntryState.REGISTERED)
    if rules.overwrite:
        reason = f"in place of another {present.relation.kind}, whose files stay"
        return Verdict(act=ImportAction.REPLACE, state=EntryState.REGISTERED, reason=reason)
    return _conflict(
        f"another {present.relation.kind} has the name", "rename or drop it, or ask for --overwrite to replace it"
    )


def _same(candidate: Candidate, relation: Relation, present: Header, rules: ImportOptions) -> Verdict:
    """The catalog has this very table, at other metadata."""
    here = strip_metadata_suffix(relation.metadata_location or "")
    if here in candidate.header.past:
        if rules.refresh:
            return Verdict(act=ImportAction.REFRESH, state=EntryState.REFRESHED, reason=f"it was at {here}")
        reason = "the source has moved on since it was registered; it must not be written there any more"
        return Verdict(
            act=ImportAction.NOTHING, state=EntryState.THERE, reason=reason, hint="--refresh follows the source"
        )
    if strip_metadata_suffix(candidate.metadata_location) in present.past:
        return Verdict(
            act=ImportAction.NOTHING, state=EntryState.THERE, reason="committed to here since it was registered"
        )
    reason = "it is at other metadata here, and neither can be shown to come from the other"
    hint = "two catalogs may have committed to it: compare both before choosing one"
    if rules.refresh:
        return _conflict(reason, hint)
    return Verdict(act=ImportAction.NOTHING, state=EntryState.THERE, reason=reason, hint=hint)


def _conflict(reason: str, hint: str) -> Verdict:
    return Verdict(act=ImportAction.NOTHING, state=EntryState.CONFLICT, reason=reason, hint=hint)


def find_warnings(candidate: Candidate, warehouse: str) -> tuple[str, ...]:
    """What its new owner should know: files that are or will be written outside of the catalog's warehouse."""
    properties, root = candidate.metadata.get("properties") or {}, normalize_location(warehouse)
    said = []
    if not lies_in(normalize_location(candidate.header.location), root):
        said.append(f"it lies outside of the catalog's warehouse, at {candidate.header.location}")
    for key in ("write.metadata.path", "write.data.path", "write.object-storage.path", "write.folder-storage.path"):
        place = properties.get(key)
        if place is not None and not lies_in(normalize_location(place), root):
            said.append(f"{key} leads outside of the catalog's warehouse, to {place}")
    if properties.get("gc.enabled") == "false":
        said.append("gc.enabled is false and stays so: engines delete no files of it")
    return tuple(said)
