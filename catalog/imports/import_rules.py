"""Decides whether a found table may be registered. Pure: it uses facts of one moment."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from catalog.iceberg.json import Json
from catalog.imports.newest_metadata import Header, strip_metadata_suffix
from catalog.tables.relation import Relation, RelationKind
from firn.protocol.imports import EntryState
from firn.protocol.locations import lies_in, normalize_location


class ImportAction(StrEnum):
    """The action for a candidate."""

    ADD = "add"
    REPLACE = "replace"  # drop the existing table without its files, and add the candidate
    REFRESH = "refresh"  # move the pointer of the existing table
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportRules:
    """Whether an import may replace or refresh existing tables."""

    overwrite: bool = False
    refresh: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """Metadata that a user wants to register."""

    metadata_location: str
    metadata: Json
    header: Header

    @property
    def kind(self) -> RelationKind:
        """The kind of relation that it would become."""
        return RelationKind.VIEW if self.header.is_view else RelationKind.TABLE


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingTable:
    """The existing relation of that name; `header` is None for a keyed table, which has no metadata of its own."""

    relation: Relation
    header: Header | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The action for a candidate, and its result for people."""

    act: ImportAction
    state: EntryState
    reason: str | None = None
    hint: str | None = None
    is_misplaced: bool = False
    """Whether its files lie in a forbidden location. Then nobody may read its metadata."""


@dataclass(frozen=True, slots=True)
class Misplaced:
    """Why a candidate's location is forbidden: see catalog.locations.location_rule."""

    reason: str
    hint: str | None = None


def decide_import(
    candidate: Candidate, present: ExistingTable | None, misplaced: Misplaced | None, rules: ImportRules
) -> Verdict:
    """The verdict on a candidate. That of a misplaced one reveals nothing of its metadata."""
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
        return _make_conflict(reason, "rename or drop it, or import below another namespace with --into")
    if present is not None and present.header is not None and present.header.uuid == candidate.header.uuid:
        return _decide_same_table(candidate, present.relation, present.header, rules)
    if present is None:
        return Verdict(act=ImportAction.ADD, state=EntryState.REGISTERED)
    if rules.overwrite:
        reason = f"replaces another {present.relation.kind}, whose files stay"
        return Verdict(act=ImportAction.REPLACE, state=EntryState.REGISTERED, reason=reason)
    return _make_conflict(
        f"another {present.relation.kind} has the name", "rename or drop it, or use --overwrite to replace it"
    )


def _decide_same_table(candidate: Candidate, relation: Relation, present: Header, rules: ImportRules) -> Verdict:
    """The verdict on a table that the catalog has at other metadata."""
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
            act=ImportAction.NOTHING,
            state=EntryState.THERE,
            reason="somebody has committed to it in Firn since it was registered",
        )
    reason = "it is at other metadata here, and neither can be shown to come from the other"
    hint = "two catalogs may have committed to it: compare both before choosing one"
    if rules.refresh:
        return _make_conflict(reason, hint)
    return Verdict(act=ImportAction.NOTHING, state=EntryState.THERE, reason=reason, hint=hint)


def _make_conflict(reason: str, hint: str) -> Verdict:
    return Verdict(act=ImportAction.NOTHING, state=EntryState.CONFLICT, reason=reason, hint=hint)


def find_warnings(candidate: Candidate, warehouse: str) -> tuple[str, ...]:
    """Warnings for the new owner: files outside of the catalog's warehouse, now or later."""
    properties, root = candidate.metadata.get("properties") or {}, normalize_location(warehouse)
    warnings = []
    if not lies_in(normalize_location(candidate.header.location), root):
        warnings.append(f"it lies outside of the catalog's warehouse, at {candidate.header.location}")
    for key in ("write.metadata.path", "write.data.path", "write.object-storage.path", "write.folder-storage.path"):
        location = properties.get(key)
        if location is not None and not lies_in(normalize_location(location), root):
            warnings.append(f"{key} leads outside of the catalog's warehouse, to {location}")
    if properties.get("gc.enabled") == "false":
        warnings.append("gc.enabled is false and stays so: engines delete no files of it")
    return tuple(warnings)
