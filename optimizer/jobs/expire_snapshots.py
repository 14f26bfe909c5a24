"""Expire: removes unneeded snapshots from the table's metadata, and then the files that only they needed.

The job deletes only the difference between the metadata before and the metadata that the commit returned, never what
the plan said (docs/protocols.md, rule 2.8).
"""

from __future__ import annotations

from typing import Any

from firn.protocol.leases import Outcome, Result
from firn.protocol.names import join_name
from firn.protocol.tasks.retention import ExpireTable, ExpireTask
from optimizer.deletion import Freed, delete_unneeded
from optimizer.errors import Refused, Unknown
from optimizer.job import OptimizerJob
from optimizer.job_run import JobRun
from optimizer.reachable_files import check_manifests
from optimizer.read_checks import reads_nothing


def run(work: JobRun) -> Result:
    """Expire the snapshots of each table of the task; a refused table does not stop the others."""
    task = ExpireTask.model_validate(work.lease.task)
    freed: list[Freed] = []
    done = {"expired_snapshots": 0, "dropped_refs": 0}
    failed: list[Refused | Unknown] = []
    for table in task.tables:
        work.keeper.stage(f"expiring {join_name(table.parts)}")
        try:
            freed.append(_expire(work, table))
        except (Refused, Unknown) as error:
            failed.append(type(error)(f"{join_name(table.parts)}: {error}"))
            work.keeper.say(str(failed[-1]))
        else:
            done["expired_snapshots"] += len(table.snapshot_ids)
            done["dropped_refs"] += len(table.refs)
    if failed and not freed:
        is_certain = all(isinstance(error, Refused) for error in failed) and not work.keeper.has_committed
        outcome = Outcome.REFUSED if is_certain else Outcome.UNKNOWN
        return Result(outcome=outcome, error="; ".join(map(str, failed)))
    return Result(outcome=Outcome.COMMITTED if freed else Outcome.NOTHING, result={**done, **_describe_freed(freed)})


def _describe_freed(freed: list[Freed]) -> dict[str, Any]:
    reasons = [result.keep_reason for result in freed if result.keep_reason is not None]
    result: dict[str, Any] = {
        "deleted_files": sum(result.files for result in freed),
        "freed_bytes": sum(result.bytes for result in freed),
        "files_outside": sum(result.outside for result in freed),
    }
    return result | ({"keep_reason": reasons[0]} if reasons else {})


def _expire(work: JobRun, table: ExpireTable) -> Freed:
    before = work.api.load_table(work.lease, table.parts)
    check_manifests(work, work.session.table(table.parts).io(), before)
    change = {"requirements": _requirements(table), "updates": _updates(table)}
    after = work.commit(lambda: work.api.commit_table(work.lease, table.parts, change))
    work.keeper.say(f"{join_name(table.parts)}: {len(table.snapshot_ids)} snapshots expired")
    freed = delete_unneeded(work, table.parts, before, after)
    if freed.keep_reason is not None:
        work.keeper.say(f"{join_name(table.parts)}: no file is deleted: {freed.keep_reason}")
    elif freed.outside:
        work.keeper.say(f"{join_name(table.parts)}: left {freed.outside} files outside the table's directory")
    return freed


def _requirements(table: ExpireTable) -> list[dict[str, Any]]:
    """Require the refs to be unchanged: a ref that moved meanwhile has not expired."""
    seen = [{"type": "assert-ref-snapshot-id", "ref": ref, "snapshot-id": at} for ref, at in table.refs.items()]
    return [{"type": "assert-table-uuid", "uuid": table.table_uuid}, *seen]


def _updates(table: ExpireTable) -> list[dict[str, Any]]:
    dropped = [{"action": "remove-snapshot-ref", "ref-name": ref} for ref in table.refs]
    if not table.snapshot_ids:
        return dropped
    return [*dropped, {"action": "remove-snapshots", "snapshot-ids": table.snapshot_ids}]


# It reads metadata by `needed_files`, which checks each state that it is given.
JOB = OptimizerJob(run, reads_nothing)
