"""View metadata: made for a new view and changed by a commit's updates, with the versions a view keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from catalog.errors import Invalid
from catalog.iceberg.draft import (
    Draft,
    add_schema,
    apply_each,
    parse_location,
    remove_properties,
    resolve_last,
    set_location,
    set_properties,
)
from catalog.iceberg.json import Json, child, children, drop_nulls, integer, text, text_map, texts
from catalog.iceberg.requirements import check_view_requirements
from catalog.iceberg.schema import schema_id
from catalog.iceberg.structure import HIGHEST_VERSION

__all__ = ["apply_view_updates", "build_view", "check_view", "check_view_requirements", "current_version"]

FORMAT_VERSION = 1
_KEPT_PROPERTY = "version.history.num-entries"
_KEPT_VERSIONS = 10
_DROP_DIALECT_PROPERTY = "replace.drop-dialect.allowed"
_BEHAVIOUR = ("summary", "representations", "default-catalog", "default-namespace", "schema-id")


@dataclass(slots=True, kw_only=True)
class ViewDraft(Draft):
    """A view's metadata while it is being changed; `became_current_at` is set when the request chose a version."""

    last_version: int | None = None
    added: set[int] = field(default_factory=set)
    became_current_at: int | None = None


def build_view(
    *, uuid: str, location: str, schema: Json, view_version: Json, properties: Mapping[str, str], now_ms: int
) -> Json:
    """Metadata of a view whose first version, number 1, is `view_version` over `schema`."""
    empty: Json = {
        "view-uuid": uuid,
        "format-version": FORMAT_VERSION,
        "location": parse_location(location),
        "schemas": [],
        "current-version-id": 0,
        "versions": [],
        "version-log": [],
        "properties": dict(properties),
    }
    schema, view_version = drop_nulls(schema), drop_nulls(view_version)
    first = {"timestamp-ms": now_ms, **view_version, "version-id": 1, "schema-id": -1}
    updates: list[Json] = [
        {"action": "add-schema", "schema": schema},
        {"action": "add-view-version", "view-version": first},
        {"action": "set-current-view-version", "view-version-id": -1},
    ]
    return apply_view_updates(empty, updates, now_ms=now_ms)


def apply_view_updates(metadata: Json, updates: Sequence[Json], *, now_ms: int) -> Json:
    """New metadata with the updates applied in their order; `metadata` itself when they change nothing.

    The input is never written.  Invalid when an update makes no sense for this view, or when the new current version
    loses an SQL dialect that the old one has and the view's properties do not allow that.
    """
    draft = ViewDraft(base=metadata, now_ms=now_ms)
    apply_each(draft, updates, VIEW_UPDATES, kind="view")
    if not draft.changed:
        return metadata
    if draft.became_current_at is not None:
        entry = {"timestamp-ms": draft.became_current_at, "version-id": draft.fields["current-version-id"]}
        draft.own_items("version-log").append(entry)
    _check_dialects(draft)
    _expire_versions(draft)
    return draft.fields


def check_view(metadata: Json) -> Json:
    """Check view metadata of another program. Raises Invalid if it lacks fields that readers need."""
    where = "view metadata"
    if not 1 <= integer(metadata, "format-version", where) <= FORMAT_VERSION:
        raise Invalid(f"view format version {metadata['format-version']} is not supported")
    text(metadata, "view-uuid", where)
    parse_location(text(metadata, "location", where))
    integer(metadata, "current-version-id", where)
    schema_ids = {schema_id(schema) for schema in children(metadata, "schemas", where)}
    for version in children(metadata, "versions", where):
        integer(version, "version-id", where)
        children(version, "representations", where)
        if integer(version, "schema-id", where) not in schema_ids:
            raise Invalid(f"invalid {where}: version {version['version-id']} names a schema that it lacks")
    children(metadata, "version-log", where)
    current_version(metadata)
    return metadata


def current_version(metadata: Json) -> Json:
    """The current version of the view; raise Invalid if the metadata lacks it."""
    current_id = metadata["current-version-id"]
    versions: list[Json] = metadata["versions"]
    version = next((version for version in versions if version["version-id"] == current_id), None)
    if version is None:
        raise Invalid(f"invalid view metadata: cannot find current version {current_id}")
    return version


def _assign_uuid(draft: ViewDraft, update: Json) -> None:
    value = text(update, "uuid", "assign-uuid")
    try:
        uuid = str(UUID(value))
    except ValueError as error:
        raise Invalid(f"invalid assign-uuid: {value!r} is not a UUID") from error
    current: str = draft.fields["view-uuid"]
    if current.lower() != uuid:
        raise Invalid(f"Cannot reassign uuid: the view is {current}")


def _upgrade_format_version(draft: ViewDraft, update: Json) -> None:
    requested, current = integer(update, "format-version", "upgrade-format-version"), draft.fields["format-version"]
    if requested < current:
        raise Invalid(f"Cannot downgrade v{current} view to v{requested}")
    if requested > FORMAT_VERSION:
        raise Invalid(f"Cannot upgrade view to unsupported format version: v{requested} (supported: v{FORMAT_VERSION})")


def _add_view_schema(draft: ViewDraft, update: Json) -> None:
    add_schema(draft, child(update, "schema", "add-schema"), format_version=HIGHEST_VERSION, lowest_id=0)


def _add_view_version(draft: ViewDraft, update: Json) -> None:
    """Add a version unless one that behaves the same is there; that one then counts as the last added."""
    version = child(update, "view-version", "add-view-version")
    _check_version(version)
    over = resolve_last(integer(version, "schema-id", "view version"), draft.last_schema, "schema")
    if all(schema_id(schema) != over for schema in draft.items("schemas")):
        raise Invalid(f"Cannot add version with unknown schema: {over}")
    version = {**version, "schema-id": over}
    for earlier in draft.items("versions"):
        if all(earlier.get(key) == version.get(key) for key in _BEHAVIOUR):
            draft.last_version = earlier["version-id"]
            return
    requested = integer(version, "version-id", "view version")
    number = max([requested, *(earlier["version-id"] + 1 for earlier in draft.items("versions"))])
    draft.own_items("versions").append({**version, "version-id": number})
    draft.added.add(number)
    draft.last_version = number


def _check_version(version: Json) -> None:
    where = "view version"
    integer(version, "timestamp-ms", where)
    text_map(version, "summary", where)
    texts(version, "default-namespace", where)
    seen: set[str] = set()
    for representation in children(version, "representations", where):
        if text(representation, "type", "view representation").lower() != "sql":
            continue
        text(representation, "sql", "view representation")
        dialect = text(representation, "dialect", "view representation").lower()
        if dialect in seen:
            raise Invalid(f"Invalid view version: Cannot add multiple queries for dialect {dialect}")
        seen.add(dialect)


def _set_current_version(draft: ViewDraft, update: Json) -> None:
    requested = integer(update, "view-version-id", "set-current-view-version")
    requested = resolve_last(requested, draft.last_version, "view version")
    if draft.fields["current-version-id"] == requested:
        return
    for version in draft.items("versions"):
        if version["version-id"] == requested:
            draft.set("current-version-id", requested)
            # choosing an older version again happens now, whenever it was made
            draft.became_current_at = version["timestamp-ms"] if requested in draft.added else draft.now_ms
            return
    raise Invalid(f"Cannot set current version to unknown version: {requested}")


VIEW_UPDATES: Mapping[str, Callable[[ViewDraft, Json], None]] = {
    "assign-uuid": _assign_uuid,
    "upgrade-format-version": _upgrade_format_version,
    "add-schema": _add_view_schema,
    "add-view-version": _add_view_version,
    "set-current-view-version": _set_current_version,
    "set-location": set_location,
    "set-properties": set_properties,
    "remove-properties": remove_properties,
}


def _check_dialects(draft: ViewDraft) -> None:
    """A replaced view must stay readable to the engines that read it before, unless its owner allowed otherwise."""
    allowed = (draft.fields.get("properties") or {}).get(_DROP_DIALECT_PROPERTY, "false").lower() == "true"
    if allowed or not draft.base["versions"]:
        return
    before, after = _dialects(current_version(draft.base)), _dialects(current_version(draft.fields))
    if not before <= after:
        raise Invalid(
            f"Cannot replace view due to loss of view dialects ({_DROP_DIALECT_PROPERTY}=false): "
            f"previous {', '.join(sorted(before))}; new {', '.join(sorted(after))}",
            hint=f"add the missing queries or set {_DROP_DIALECT_PROPERTY}=true",
        )


def _dialects(version: Json) -> set[str]:
    return {entry["dialect"].lower() for entry in version["representations"] if entry["type"].lower() == "sql"}


def _expire_versions(draft: ViewDraft) -> None:
    """Keep the newest versions: as many as the property says, never fewer than this request brought and the current.

    The history loses what came before an expired version, as a gap would tell the wrong version for a time.
    """
    versions, current = draft.items("versions"), draft.fields["current-version-id"]
    keep = max(_versions_to_keep(draft), len(draft.added | {current}))
    if len(versions) <= keep:
        return
    newest = sorted((version["version-id"] for version in versions if version["version-id"] != current), reverse=True)
    kept = {current, *newest[: keep - 1]}
    draft.set("versions", [version for version in versions if version["version-id"] in kept])
    history: list[Json] = []
    for entry in draft.items("version-log"):
        if entry["version-id"] in kept:
            history.append(entry)
        else:
            history.clear()
    draft.set("version-log", history)


def _versions_to_keep(draft: ViewDraft) -> int:
    value = (draft.fields.get("properties") or {}).get(_KEPT_PROPERTY, str(_KEPT_VERSIONS))
    if not (value.isascii() and value.isdigit() and value.strip("0") and len(value) < 10):
        raise Invalid(f"{_KEPT_PROPERTY} must be positive but was {value}")
    return int(value)
