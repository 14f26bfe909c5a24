"""The size limits of request bodies by route. A test compares them with the routes.

A body is held in memory as a whole before anybody looks at it, so each route takes what it can use and no more. The
setting `max_body_bytes` is the ceiling of all of them, and the limit of commits.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.types import Message, Receive, Scope

KIB = 1024
MIB = 1024 * KIB

FORM = 64 * KIB  # names, secrets, a few settings
FILTER = 512 * KIB  # ten thousand values
DOCUMENT = 2 * MIB  # properties, policies, lists of tables or of partitions
METADATA = 16 * MIB  # schemas of ten thousand columns, an optimizer's lists of files
RESULT = 48 * MIB  # a page of a thousand rows, or all rows as a file in base64
COMMIT = None
"""`max_body_bytes`. A commit names a manifest list, not its files: with 10,000 files it is as small as with one. Large
are only those that carry a whole table's metadata over, with all its snapshots."""

Limits = Mapping[tuple[str, str], int | None]

_NAMESPACE = "/{catalog}/namespaces/{namespace}"
_TABLE = f"{_NAMESPACE}/tables/{{table}}"
_CATALOG = "/catalogs/{catalog}"
_ITEM = f"{_CATALOG}/tables/{{table}}"
_HIVE = f"{_CATALOG}/hive/{{full_name}}"
_LEASE = "/leases/{lease}"
_BACKFILLS = "/pipelines/{pipeline}/tables/{table}/backfills"

ICEBERG: Limits = {
    ("POST", "/oauth/tokens"): FORM,  # needs no token
    ("POST", "/{catalog}/namespaces"): DOCUMENT,
    ("POST", f"{_NAMESPACE}/properties"): DOCUMENT,
    ("POST", f"{_NAMESPACE}/tables"): METADATA,
    ("POST", f"{_NAMESPACE}/register"): FORM,
    ("POST", _TABLE): COMMIT,
    ("POST", f"{_TABLE}/plan"): FILTER,
    ("POST", f"{_TABLE}/tasks"): FORM,
    ("POST", f"{_TABLE}/sign"): DOCUMENT,  # a deletion of many objects comes with its list
    ("POST", f"{_TABLE}/unregister"): FORM,
    ("POST", f"{_TABLE}/metrics"): METADATA,  # a report repeats the filter of its scan
    ("POST", "/{catalog}/tables/rename"): FORM,
    ("POST", "/{catalog}/transactions/commit"): COMMIT,
    ("POST", f"{_NAMESPACE}/register-view"): FORM,
    ("POST", f"{_NAMESPACE}/views"): METADATA,
    ("POST", f"{_NAMESPACE}/views/{{view}}"): METADATA,
    ("POST", "/{catalog}/views/rename"): FORM,
}

_OF_TABLES: Limits = {
    ("POST", f"{_ITEM}/jobs"): DOCUMENT,  # its options may name partitions
    ("POST", f"{_ITEM}/distributions"): FORM,
    ("POST", f"{_CATALOG}/tables"): METADATA,
    ("PATCH", f"{_ITEM}/properties"): DOCUMENT,
    ("PATCH", f"{_ITEM}/description"): DOCUMENT,  # comments of columns
    ("PATCH", f"{_ITEM}/policy"): DOCUMENT,
    ("POST", f"{_ITEM}/quarantine/restore"): METADATA,
    ("POST", f"{_ITEM}/protect"): FORM,
    ("POST", f"{_ITEM}/unprotect"): FORM,
    ("POST", f"{_ITEM}/blockers"): FORM,
    ("POST", f"{_ITEM}/register"): FORM,
    ("PUT", f"{_ITEM}/refs/{{name:path}}"): FORM,
    ("POST", f"{_ITEM}/refs/{{name:path}}/fast-forward"): FORM,
    ("POST", f"{_ITEM}/rollback"): FORM,
    ("POST", f"{_ITEM}/writers/{{writer}}"): FORM,
    ("POST", f"{_ITEM}/consumers/{{consumer}}"): FORM,
    ("POST", f"{_ITEM}/log/columns"): FORM,  # a hundred columns
    ("POST", f"{_ITEM}/log/quarantine/drop"): FORM,
    ("POST", f"{_ITEM}/log/quarantine/writer"): FORM,
    ("POST", f"{_ITEM}/log/reset"): DOCUMENT,  # two positions of at most 32,768 characters
    ("POST", f"{_ITEM}/log/skip"): FORM,  # a position of at most 32,768 characters
    ("POST", f"{_CATALOG}/views/{{view}}/rollback"): FORM,
    ("PATCH", f"{_CATALOG}/views/{{view}}/description"): FORM,
    ("POST", f"{_CATALOG}/dropped/{{entry_id}}/undrop"): FORM,
}

_OF_CATALOGS: Limits = {
    ("POST", "/catalogs"): DOCUMENT,
    ("PATCH", f"{_CATALOG}/properties"): DOCUMENT,
    ("PATCH", f"{_CATALOG}/description"): FORM,
    ("POST", f"{_CATALOG}/namespaces"): DOCUMENT,
    ("PATCH", f"{_CATALOG}/namespaces/{{namespace}}/description"): FORM,
    ("POST", f"{_CATALOG}/namespaces/{{namespace}}/protect"): FORM,
    ("POST", f"{_CATALOG}/namespaces/{{namespace}}/unprotect"): FORM,
    ("PUT", f"{_CATALOG}/policy"): DOCUMENT,
    ("PATCH", f"{_CATALOG}/policy"): DOCUMENT,
    ("POST", f"{_CATALOG}/imports"): DOCUMENT,
    ("POST", f"{_CATALOG}/imports/{{operation_id}}/resume"): FORM,
    ("POST", f"{_CATALOG}/hive/refresh"): FORM,
    ("POST", f"{_CATALOG}/hive/views/{{full_name}}"): FORM,
    ("POST", f"{_CATALOG}/hive/upgrade"): METADATA,  # thousands of tables, each with settings of its own
    **{("POST", f"{_CATALOG}/hive/upgrades/{{batch}}/{verb}"): FORM for verb in ("pause", "resume", "cancel")},
    **{
        ("POST", f"{_HIVE}/{verb}"): DOCUMENT
        for verb in ("check", "upgrade", "sync", "publish", "convert", "downgrade")
    },
}

_OF_WORK: Limits = {
    **{("POST", f"/jobs/{{job_id}}/{verb}"): FORM for verb in ("cancel", "retry")},
    **{("POST", f"/operations/{{operation_id}}/{verb}"): FORM for verb in ("pause", "resume", "cancel")},
    ("POST", "/optimizers"): FORM,
    ("POST", "/optimizers/{optimizer_id}/drain"): FORM,
    ("POST", "/optimizers/{optimizer_id}/undrain"): FORM,
    ("POST", "/groups"): FORM,
    ("PUT", "/groups/{group}"): FORM,
    ("PATCH", "/groups/{group}"): FORM,
    ("PUT", "/groups/{group}/launch"): DOCUMENT,
    ("PATCH", "/groups/{group}/launch"): DOCUMENT,
    ("POST", "/groups/{group}/launch/dry-run"): DOCUMENT,
    ("POST", "/connections"): FORM,
    ("POST", "/connections/{connection}/check"): FORM,
    ("POST", "/notifications/rules"): FORM,
    ("PATCH", "/notifications/rules/{rule}"): FORM,
    ("POST", "/notifications/rules/{rule}/test"): FORM,
    ("POST", "/notifications/rules/{rule}/retry"): FORM,
    ("POST", "/notifications/rules/{rule}/silence"): FORM,
    ("POST", "/notifications/{notification_id}/retry"): FORM,
    ("POST", f"{_CATALOG}/cdc/plan"): DOCUMENT,  # fifty rules with the types of their columns
    ("POST", "/hadoop/check"): FORM,
    ("POST", "/groups/{group}/scale"): FORM,
    **{("POST", f"/streams/{{stream_id}}/{verb}"): FORM for verb in ("pause", "resume", "restart")},
    ("POST", "/stream-leases"): FORM,
    ("PUT", "/stream-leases/{lease}"): METADATA,  # lines of a log
    ("POST", "/stream-leases/{lease}/report"): METADATA,
    ("POST", "/leases"): FORM,
    ("PUT", _LEASE): METADATA,  # lines of a log among it
    ("POST", f"{_LEASE}/committing"): FORM,
    ("POST", f"{_LEASE}/locations"): METADATA,  # of files, by the thousand
    ("POST", f"{_LEASE}/report"): METADATA,
    ("POST", f"{_LEASE}/published"): METADATA,
    ("POST", f"{_LEASE}/adopted"): METADATA,
    ("POST", f"{_LEASE}/cleaned"): METADATA,
    ("PUT", "/pipelines/{pipeline}"): METADATA,  # files and queries of a thousand tables
    ("POST", "/pipelines/{pipeline}/runs"): FORM,
    **{("POST", f"/pipelines/{{pipeline}}/tables/{{table}}/{verb}"): FORM for verb in ("reset", "publish", "discard")},
    ("POST", _BACKFILLS): FORM,
    ("POST", "/pipelines/{pipeline}/tables/{table}/replays"): FORM,
    **{("POST", f"{_BACKFILLS}/{{backfill_id}}/{verb}"): FORM for verb in ("pause", "resume", "cancel")},
    ("POST", f"{_LEASE}/pins"): FORM,
    ("POST", f"{_LEASE}/chunks"): FORM,
    ("POST", f"{_LEASE}/chunk-takes"): FORM,
    ("POST", f"{_LEASE}/chunk-commits"): METADATA,  # a snapshot
    ("POST", f"{_LEASE}/checkpoint"): FORM,
    ("POST", f"{_LEASE}/publish"): METADATA,  # snapshots of twenty tables
    ("POST", f"{_LEASE}/image"): FORM,
    ("POST", f"{_LEASE}/image/credentials"): FORM,
    ("POST", f"{_LEASE}/image/complete"): METADATA,
    ("POST", f"{_LEASE}/orphans"): METADATA,
    ("POST", f"{_LEASE}/orphans/overdue"): FORM,
}

_OF_QUERIES: Limits = {
    ("POST", "/lineage"): DOCUMENT,  # an event, with the lineage of columns
    ("POST", "/lineage/batch"): METADATA,  # a hundred events
    ("POST", "/queries"): FORM,
    ("POST", "/query-leases"): FORM,
    ("PUT", "/query-leases/{lease}"): FORM,
    ("POST", "/query-leases/{lease}/locations"): METADATA,  # a thousand, each up to 32 KiB
    ("PUT", "/query-leases/{lease}/parts"): RESULT,
    ("POST", "/query-leases/{lease}/report"): DOCUMENT,  # the columns of the result
    ("POST", "/saved-queries"): FORM,
    ("PUT", "/saved-queries/{saved_id}"): FORM,
}

_OF_ACCESS: Limits = {
    ("POST", "/tokens"): FORM,
    ("POST", "/roles"): FORM,
    ("POST", "/roles/{role}/grants"): FORM,
    ("POST", "/roles/{role}/grants/revoke"): FORM,
    ("PUT", "/roles/{role}/members/{name}"): FORM,
    **{
        ("POST", f"/{kind}{path}"): FORM
        for kind in ("users", "services")
        for path in ("", "/{name}/disable", "/{name}/enable")
    },
    ("POST", "/services/{name}/secret"): FORM,
}

API: Limits = {**_OF_CATALOGS, **_OF_TABLES, **_OF_WORK, **_OF_QUERIES, **_OF_ACCESS}


def limit_of(limits: Limits, scope: Scope, ceiling: int) -> int:
    """Find the limit of a request's route; small for methods without a body."""
    route: Any = scope.get("route")
    limit = FORM if route is None else limits.get((scope["method"], route.path), FORM)
    return ceiling if limit is None else min(limit, ceiling)


def limited(receive: Receive, scope: Scope, limits: Limits, ceiling: int) -> Receive:
    """The same, refusing a body beyond the limit: by its length before any of it is read, else as soon as it is passed.

    The route is known by the time when somebody reads; bodies that nobody reads are not kept.
    """
    size, most = 0, -1

    async def receive_within() -> Message:
        nonlocal size, most
        if most < 0:
            most = limit_of(limits, scope, ceiling)
            if _announced(scope) > most:
                raise HTTPException(413, f"the body is larger than {most} bytes")
        message = await receive()
        size += len(message.get("body", b""))
        if size > most:
            raise HTTPException(413, f"the body is larger than {most} bytes")
        return message

    return receive_within


def _announced(scope: Scope) -> int:
    for name, value in scope["headers"]:
        if name == b"content-length":
            return int(value) if value.isdigit() else 0
    return 0
