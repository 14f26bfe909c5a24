"""One table with all its details, loaded for the management API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from catalog.history.schema_text import format_iceberg_type, format_partitioning
from catalog.iceberg.json import Json
from catalog.iceberg.table import current_schema, ref_snapshot_id
from catalog.jobs.blocker import find_longest_blocker
from catalog.jobs.job import Job, JobKind
from catalog.keyed.image import explain_v3
from catalog.keyed.spec import KeyedTable
from catalog.keyed.uniqueness import read_uniqueness
from catalog.maintenance import KINDS
from catalog.names import CatalogName, RelationId, TableName
from catalog.planning import Due, NotDue
from catalog.planning.facts import TableFacts
from catalog.ports.store import UnitOfWork
from catalog.removal.drop import is_protected
from catalog.retention.at_read import compute_read_cutoff, describe_hidden
from catalog.tables.description import read_column_labels
from catalog.tables.relation import Relation, TableStats
from firn.protocol.answers.tables import NextOut, PredictedOut, StoreOut, TableColumnOut, TableOut
from server.api.blockers import build_table_blocker_out
from server.api.description_views import build_description_out
from server.api.jobs import build_job_out
from server.api.key_views import build_keys_out
from server.api.table_views import describe_layout, describe_relation, format_snapshot_id
from server.service.commit.commit_target import load_metadata
from server.service.planning.planner import find_planned_relation, load_facts, load_past_jobs
from server.service.services import Services
from server.service.tables.refs import explain_no_rollback

_WITHOUT_JOB = ("drop", "sync", "publish", "tag", "branch", "rollback")
"""Actions that start no maintenance job of the planner."""


def load_table_out(services: Services, catalog: CatalogName, name: TableName) -> TableOut:
    """Load all details of one table; NoSuchTable."""
    outlook = services.planner.outlook(catalog, name)
    with services.database.reading() as uow:
        relation = find_planned_relation(uow, catalog, name)
        facts = load_facts(uow, relation)
        job = uow.jobs.active_of(relation.id)
        stores = load_stores(uow, relation, facts.keyed)
        stats = uow.stats.get_many([store.id for store in stores.values()])
        table_status = uow.table_statuses.get_many([relation.id]).get(relation.id)
        past = load_past_jobs(uow, relation.id)
    metadata = {role: load_metadata(services.metadata, store) for role, store in stores.items()}
    main = metadata.get("base") or metadata["table"]
    keyed = facts.keyed
    counted = None if keyed is None else read_uniqueness(past, ref_snapshot_id(main, "main"))
    properties = main.get("properties", {})
    allowed_actions, unavailable_actions = _split_actions(
        relation, facts, job, now=outlook.now, is_protected=is_protected(properties)
    )
    return TableOut(
        **describe_relation(relation, keyed, stats, table_status),
        **describe_layout(facts.layout),
        id=relation.id,
        catalog=catalog,
        location=relation.location,
        description=build_description_out(properties),
        columns=_columns(main, keyed),
        partition_by=format_partitioning(main),
        **_describe_key(keyed),
        keys=None if counted is None else build_keys_out(counted),
        hides=_describe_hidden(relation, facts, main, outlook.now),
        read_in_v3=None if keyed is None else explain_v3(main, facts.policy["firn.read.format-version"]),
        stores={role: _store(store, metadata[role], stats) for role, store in stores.items()},
        properties=properties,
        protected=is_protected(properties),
        next=build_next_out(outlook.decision),
        active_job=None if job is None else build_job_out(job),
        created_at=relation.created_at,
        allowed_actions=allowed_actions,
        unavailable_actions=unavailable_actions,
    )


def _describe_hidden(relation: Relation, facts: TableFacts, base: Json, now: datetime) -> str | None:
    """The rows that reads hide because they are too old, as text."""
    is_hiding = facts.keyed is not None and relation.hive_name is None
    cutoff = compute_read_cutoff(base, facts.policy, now) if is_hiding else None
    return None if cutoff is None else describe_hidden(cutoff)


def _describe_key(keyed: KeyedTable | None) -> dict[str, Any]:
    if keyed is None:
        plain = ("sequence_field", "key_scope", "watermark", "change_sequence", "version")
        return {"primary_key": [], **dict.fromkeys(plain)}
    return {
        "primary_key": list(keyed.spec.primary_key),
        "sequence_field": keyed.spec.sequence_field,
        "key_scope": keyed.spec.scope,
        "watermark": keyed.watermark,
        "change_sequence": keyed.change_sequence,
        "version": keyed.version,
    }


def load_stores(uow: UnitOfWork, relation: Relation, keyed: KeyedTable | None) -> dict[str, Relation]:
    """Load the stores of a table by role: `table`, or `base` and `change`."""
    if keyed is None:
        return {"table": relation}
    return {"base": uow.relations.get(keyed.base_id), "change": uow.relations.get(keyed.change_id)}


def _columns(metadata: Json, keyed: KeyedTable | None) -> list[TableColumnOut]:
    keys = () if keyed is None else keyed.spec.primary_key
    labels = read_column_labels(metadata.get("properties", {}))
    return [
        TableColumnOut(
            id=field["id"],
            name=field["name"],
            type=format_iceberg_type(field["type"]),
            required=field["required"],
            comment=field.get("doc"),
            is_key=field["name"] in keys,
            labels=list(labels.get(field["id"], ())),
        )
        for field in current_schema(metadata)["fields"]
    ]


def _store(relation: Relation, metadata: Json, stats: Mapping[RelationId, TableStats]) -> StoreOut:
    counted = stats.get(relation.id, TableStats(relation_id=relation.id))
    return StoreOut(
        name=str(relation.name),
        location=relation.location,
        metadata_location=relation.metadata_location,
        format_version=metadata["format-version"],
        snapshot_id=format_snapshot_id(counted.snapshot_id),
        sequence_number=counted.sequence_number,
        records=counted.records,
        bytes=counted.bytes,
        data_files=counted.data_files,
        delete_files=counted.delete_files,
        snapshots=counted.snapshots,
        last_commit_at=counted.last_commit_at,
    )


def _split_actions(
    relation: Relation, facts: TableFacts, job: Job | None, *, now: datetime, is_protected: bool
) -> tuple[list[str], dict[str, str]]:
    """Split the actions of a table into those that are allowed now and the others, with the reasons."""
    actions = [*(str(kind.name) for kind in KINDS if kind.can_request and relation.kind in kind.tables), "drop"]
    actions += ["sync", "publish"] if relation.hive_name is not None else []
    actions += ["tag", "branch", "rollback"]
    reasons = _find_state_reasons(relation, facts.keyed, job, actions)
    blocked = {
        str(kind): f"the table is {blocker}"
        for kind in JobKind
        if (blocker := find_longest_blocker(facts.blockers, (kind,), now)) is not None
    }
    reasons |= {action: reason for action, reason in blocked.items() if action in actions and action not in reasons}
    if is_protected:
        reasons["drop"] = "it is protected against being dropped"
    return [action for action in actions if action not in reasons], reasons


def _find_state_reasons(
    relation: Relation, keyed: KeyedTable | None, job: Job | None, actions: Sequence[str]
) -> dict[str, str]:
    """Find why the state of the table rules out actions. A job that only waits yields to other jobs."""
    reasons: dict[str, str] = {}
    if job is not None:
        job_kinds = [] if job.is_preemptible else [action for action in actions if action not in _WITHOUT_JOB]
        excluded = [action for action in ("drop", "sync", "publish", *job_kinds) if action in actions]
        reasons = dict.fromkeys(excluded, "a job is active on this table")
    if keyed is not None and not keyed.pending_commits:
        reasons.setdefault("merge", "nothing is pending: the base store has every change")
    if keyed is not None:
        reasons["branch"] = "a keyed table has no branches: its two stores only move together"
    if relation.kind.is_store:
        reasons["drop"] = "it is dropped with its table"
    refusal = explain_no_rollback(relation)
    if refusal is not None:
        reasons["rollback"] = refusal
    return reasons


def build_next_out(decision: Due | NotDue) -> NextOut:
    """Build the answer from the planner's decision."""
    gain = None if decision.predicted is None else PredictedOut.model_validate(decision.predicted)
    if isinstance(decision, Due):
        return NextOut(
            due=True, kind=decision.kind, reason=decision.reason, next_at=None, predicted=gain, blocked_by=None
        )
    blocker = None if decision.blocked_by is None else build_table_blocker_out(decision.blocked_by)
    return NextOut(
        due=False,
        kind=decision.kind,
        reason=decision.reason,
        next_at=decision.next_at,
        predicted=gain,
        blocked_by=blocker,
    )
