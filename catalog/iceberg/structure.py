"""Updates of the structure of a table: identity, format version, schemas, partition specs, sort orders."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from catalog.errors import Invalid
from catalog.iceberg import partitioning, sorting
from catalog.iceberg.draft import Draft, add_schema, resolve_last
from catalog.iceberg.json import Json, child, integer, integers, text
from catalog.iceberg.schema import SchemaIndex, index, schema_id
from catalog.iceberg.transform import canonical, source_id

HIGHEST_VERSION = 3
FIRST_VERSION_WITH_ROW_LINEAGE = 3


@dataclass(slots=True, kw_only=True)
class TableDraft(Draft):
    """A table's metadata while it is being changed.

    `named_refs` are the refs that the request itself sets or removes: only those may lose their snapshot by it.
    """

    named_refs: frozenset[str] = frozenset()
    last_spec: int | None = None
    last_order: int | None = None
    layout_changed: bool = False
    added: dict[int, Json] = field(default_factory=dict)
    heads: list[int] = field(default_factory=list)
    snapshots_removed: bool = False
    snapshots: dict[int, Json] | None = None

    @property
    def format_version(self) -> int:
        version: int = self.fields["format-version"]
        return version

    @property
    def is_new(self) -> bool:
        """Whether the table is only being created: nobody has seen its id or format version yet."""
        return not self.base["schemas"]

    def snapshots_by_id(self) -> dict[int, Json]:
        """The snapshots of the draft as it stands, indexed once."""
        if self.snapshots is None:
            self.snapshots = {snapshot["snapshot-id"]: snapshot for snapshot in self.items("snapshots")}
        return self.snapshots

    def set_layout(self, key: str, value: int) -> None:
        """Choose the current schema, spec or order."""
        if self.fields.get(key) != value:
            self.set(key, value)
            self.layout_changed = True


def assign_uuid(draft: TableDraft, update: Json) -> None:
    """Give a new table its id; an existing table's id never changes, others know the table by it."""
    uuid_text = text(update, "uuid", "assign-uuid")
    try:
        uuid = str(UUID(uuid_text))
    except ValueError as error:
        raise Invalid(f"invalid assign-uuid: {uuid_text!r} is not a UUID") from error
    current = draft.fields.get("table-uuid")
    if current is not None and current.lower() == uuid:
        return
    if current is not None and not draft.is_new:
        raise Invalid(f"Cannot reassign uuid: the table is {current}")
    draft.set("table-uuid", uuid)


def upgrade_format_version(draft: TableDraft, update: Json) -> None:
    """Raise the format version; only a table that is being created may still go down."""
    requested, current = integer(update, "format-version", "upgrade-format-version"), draft.format_version
    if not 1 <= requested <= HIGHEST_VERSION:
        supported = f"(supported: v{HIGHEST_VERSION})"
        raise Invalid(f"Cannot upgrade table to unsupported format version: v{requested} {supported}")
    if requested < current and (not draft.is_new or draft.items("schemas")):
        raise Invalid(f"Cannot downgrade v{current} table to v{requested}")
    if requested != current:
        draft.set("format-version", requested)


def add_table_schema(draft: TableDraft, update: Json) -> None:
    """Add a schema; the table's last column id follows from it (the client's own number is obsolete)."""
    schema = child(update, "schema", "add-schema")
    schema_count = len(draft.items("schemas"))
    _, highest = add_schema(
        draft, schema, format_version=draft.format_version, lowest_id=draft.fields["current-schema-id"]
    )
    if highest > draft.fields["last-column-id"]:
        draft.set("last-column-id", highest)
    draft.layout_changed |= len(draft.items("schemas")) > schema_count


def set_current_schema(draft: TableDraft, update: Json) -> None:
    """Choose the schema that the table is read and written with."""
    requested = resolve_last(integer(update, "schema-id", "set-current-schema"), draft.last_schema, "schema")
    if all(schema_id(schema) != requested for schema in draft.items("schemas")):
        raise Invalid(f"Cannot set current schema to unknown schema: {requested}")
    draft.set_layout("current-schema-id", requested)


def remove_schemas(draft: TableDraft, update: Json) -> None:
    """Remove schemas that are not the current one; ids that are not there are passed over."""
    doomed = set(integers(update, "schema-ids", "remove-schemas"))
    if draft.fields["current-schema-id"] in doomed:
        raise Invalid("Cannot remove the current schema")
    kept = [schema for schema in draft.items("schemas") if schema_id(schema) not in doomed]
    if len(kept) < len(draft.items("schemas")):
        draft.set("schemas", kept)


def add_spec(draft: TableDraft, update: Json) -> None:
    """Add a partition spec unless the table has one that partitions alike under the same names."""
    spec, specs = child(update, "spec", "add-spec"), draft.items("partition-specs")
    draft.last_spec, reused = partitioning.choose_spec_id(specs, spec)
    if reused:
        return
    last_id: int = draft.fields["last-partition-id"]
    spec = partitioning.assign_field_ids(spec, specs, format_version=draft.format_version, last_id=last_id)
    partitioning.check_spec(spec, _current_fields(draft), format_version=draft.format_version)
    draft.own_items("partition-specs").append({**spec, "spec-id": draft.last_spec})
    draft.set("last-partition-id", max(last_id, partitioning.last_field_id(spec)))
    draft.layout_changed = True


def set_default_spec(draft: TableDraft, update: Json) -> None:
    """Choose the spec that new data is partitioned by; a later update of the request may still bring it."""
    requested = resolve_last(integer(update, "spec-id", "set-default-spec"), draft.last_spec, "partition spec")
    draft.set_layout("default-spec-id", requested)


def remove_specs(draft: TableDraft, update: Json) -> None:
    """Remove specs that are not the default; ids that are not there are passed over."""
    doomed = set(integers(update, "spec-ids", "remove-partition-specs"))
    if draft.fields["default-spec-id"] in doomed:
        raise Invalid("Cannot remove the default partition spec")
    kept = [spec for spec in draft.items("partition-specs") if partitioning.spec_id(spec) not in doomed]
    if len(kept) < len(draft.items("partition-specs")):
        draft.set("partition-specs", kept)


def add_sort_order(draft: TableDraft, update: Json) -> None:
    """Add a sort order unless the table has an equal one."""
    order = child(update, "sort-order", "add-sort-order")
    draft.last_order, reused = sorting.choose_order_id(draft.items("sort-orders"), order)
    if reused:
        return
    sorting.check_order(order, _current_fields(draft))
    draft.own_items("sort-orders").append({**order, "order-id": draft.last_order})
    draft.layout_changed = True


def set_default_sort_order(draft: TableDraft, update: Json) -> None:
    """Choose the order that new data is sorted by; a later update of the request may still bring it."""
    requested = resolve_last(integer(update, "sort-order-id", "set-default-sort-order"), draft.last_order, "sort order")
    draft.set_layout("default-sort-order-id", requested)


def _current_fields(draft: TableDraft) -> SchemaIndex:
    return index(current(draft, "schemas", "schema-id", "current-schema-id"))


def current(draft: TableDraft, key: str, id_key: str, current_key: str) -> Json:
    """The chosen one of the schemas, specs or orders; Invalid when the request chose one that is not there."""
    chosen = draft.fields[current_key]
    for item in draft.items(key):
        if item.get(id_key, 0) == chosen:
            return item
    raise Invalid(f"invalid table metadata: {current_key} is {chosen}, but {key} has no such entry")


def check_layout(draft: TableDraft) -> None:
    """Invalid unless the default spec and sort order still fit the current schema (a column may be gone)."""
    fields = _current_fields(draft)
    spec = current(draft, "partition-specs", "spec-id", "default-spec-id")
    for entry in partitioning.fields_of(spec):
        if canonical(entry["transform"]) != "void":
            partitioning.check_partition_source(
                entry["name"], entry["transform"], source_id(entry, "partition field"), fields
            )
    sorting.check_order(current(draft, "sort-orders", "order-id", "default-sort-order-id"), fields)
