"""Requests that carry a location, for every place of every route in which one can enter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from catalog.iceberg.json import Json
from catalog.jobs.job import JobKind
from catalog.jobs.leases import Lease
from catalog.names import TableName
from server.guard import route_rules
from tests.server.guarded import SQL
from tests.server.lake import COLUMNS, Lake
from tests.server.service.dropping import path_of

HIDDEN = TableName(("db",), "hidden")
MINE = TableName(("db",), "mine")
KEYED = TableName(("db",), "keyed")


@dataclass(frozen=True, kw_only=True)
class AttackedLake:
    """A lake with a table that the attacker may not know, and tables of her own."""

    lake: Lake
    warehouse: str
    hidden: str
    manifest_list: str
    manifest: str

    def mine(self, name: TableName = MINE) -> Json:
        return self.lake.metadata(name)

    def own_list(self, manifest: str) -> str:
        """A manifest list in her own directory that names this manifest."""
        location = f"{self.mine()['location']}/metadata/snap-own-{abs(hash(manifest))}.avro"
        if not path_of(location).exists():
            data = path_of(self.manifest_list).read_bytes()
            path_of(location).write_bytes(renamed(data, self.manifest, manifest))
        return location


def renamed(manifest_list: bytes, old: str, new: str) -> bytes:
    """A manifest list whose manifest is called something else."""
    import io  # noqa: PLC0415

    import fastavro  # noqa: PLC0415

    reader: Any = fastavro.reader(io.BytesIO(manifest_list))
    lines: list[Any] = [{**line, "manifest_path": new} for line in reader if line["manifest_path"] == old]
    buffer = io.BytesIO()
    fastavro.writer(buffer, reader.writer_schema, lines)
    return buffer.getvalue()


Request = tuple[str, str, Any]
Enters = Callable[[AttackedLake, str], Request]
PATHS = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
PUBLISH = "firn.hive.publish.location"
ICEBERG = "/iceberg/v1/lake"
API = "/api/v1/catalogs/lake"
FIELDS = [{"name": "id", "type": "long"}]


def _create(**more: Any) -> Request:
    return "POST", f"{ICEBERG}/namespaces/db/tables", {"name": "new", "schema": COLUMNS, **more}


def _view(**more: Any) -> Request:
    body = {"name": "new", "schema": COLUMNS, "view-version": SQL, "properties": {}, **more}
    return "POST", f"{ICEBERG}/namespaces/db/views", body


def _snapshot(metadata: Json, **files: Any) -> Json:
    return {
        "action": "add-snapshot",
        "snapshot": {
            "snapshot-id": 77,
            "sequence-number": metadata["last-sequence-number"] + 1,
            "timestamp-ms": metadata["last-updated-ms"] + 1,
            "schema-id": 0,
            "summary": {"operation": "append"},
            **files,
        },
    }


def _statistics(metadata: Json, location: str, kind: str) -> Json:
    file = {"snapshot-id": 1, "statistics-path": location, "file-size-in-bytes": 1}
    full = file | ({"file-footer-size-in-bytes": 1, "blob-metadata": []} if kind == "statistics" else {})
    return {"action": f"set-{kind}", kind: full}


def _set(key: str, location: str) -> Json:
    return {"action": "set-properties", "updates": {key: location}}


Updates = Callable[[AttackedLake, str], Json]
DIRECTORY_UPDATES: Mapping[str, Updates] = {
    "set-location": lambda _, location: {"action": "set-location", "location": location},
    **{key: lambda _, location, key=key: _set(key, location) for key in (*PATHS, PUBLISH)},  # type: ignore[misc]
}
FILE_UPDATES: Mapping[str, Updates] = {
    "manifest-list": lambda on, location: _snapshot(on.mine(), **{"manifest-list": location}),
    "manifests": lambda on, location: _snapshot(on.mine(), **{"manifest-list": None, "manifests": [location]}),
    "a manifest of the list": lambda on, location: _snapshot(on.mine(), **{"manifest-list": on.own_list(location)}),
    "statistics": lambda on, location: _statistics(on.mine(), location, "statistics"),
    "partition-statistics": lambda on, location: _statistics(on.mine(), location, "partition-statistics"),
}
UPDATES = {**DIRECTORY_UPDATES, **FILE_UPDATES}
VIEW_UPDATES = {key: DIRECTORY_UPDATES[key] for key in ("set-location", "write.metadata.path")}


def _commit(update: Updates) -> Enters:
    return lambda on, location: (
        "POST",
        f"{ICEBERG}/namespaces/db/tables/mine",
        {"requirements": [], "updates": [update(on, location)]},
    )


def _commit_to_store(update: Updates) -> Enters:
    return lambda on, location: (
        "POST",
        f"{ICEBERG}/namespaces/db%1Fkeyed/tables/base",
        {"requirements": [], "updates": [update(on, location)]},
    )


def _committed_together(update: Updates) -> Enters:
    def request(on: AttackedLake, location: str) -> Request:
        change = {"identifier": {"namespace": ["db"], "name": "mine"}, "requirements": []}
        body = {"table-changes": [{**change, "updates": [update(on, location)]}]}
        return "POST", f"{ICEBERG}/transactions/commit", body

    return request


def _created_by_commit(update: Updates) -> Enters:
    def request(on: AttackedLake, location: str) -> Request:
        method, path, staged = _create(**{"stage-create": True})
        metadata = on.lake.client.request(method, path, json=staged).json()["metadata"]
        updates = [
            {"action": "assign-uuid", "uuid": metadata["table-uuid"]},
            {"action": "upgrade-format-version", "format-version": 2},
            {"action": "add-schema", "schema": metadata["schemas"][0]},
            {"action": "set-current-schema", "schema-id": -1},
            {"action": "add-spec", "spec": {"spec-id": 0, "fields": []}},
            {"action": "set-default-spec", "spec-id": -1},
            {"action": "add-sort-order", "sort-order": {"order-id": 0, "fields": []}},
            {"action": "set-default-sort-order", "sort-order-id": -1},
            {"action": "set-location", "location": metadata["location"]},
            update(on, location),
        ]
        body = {"requirements": [{"type": "assert-create"}], "updates": updates}
        return "POST", f"{ICEBERG}/namespaces/db/tables/new", body

    return request


def _commit_to_view(update: Updates) -> Enters:
    return lambda on, location: (
        "POST",
        f"{ICEBERG}/namespaces/db/views/v",
        {"requirements": [], "updates": [update(on, location)]},
    )


KEY = {"firn.primary-key": "id"}
DIRECTORIES: Mapping[str, Mapping[str, Enters]] = {
    "POST /{catalog}/namespaces/{namespace}/tables": {
        "location": lambda _, location: _create(location=location),
        "location of a staged table": lambda _, location: _create(location=location, **{"stage-create": True}),
        "location of a keyed table": lambda _, location: _create(location=location, properties=KEY),
        **{
            f"{key}{of}": lambda _, location, key=key, more=more, props=props: _create(  # type: ignore[misc]
                properties={key: location, **props}, **more
            )
            for key in PATHS
            for of, more, props in (
                ("", {}, {}),
                (" of a staged table", {"stage-create": True}, {}),
                (" of a keyed table", {}, KEY),
            )
        },
        PUBLISH: lambda _, location: _create(properties={PUBLISH: location}),
    },
    "POST /{catalog}/namespaces/{namespace}/tables/{table}": {
        **{key: _commit(update) for key, update in DIRECTORY_UPDATES.items()},
        **{f"{key} of a store": _commit_to_store(DIRECTORY_UPDATES[key]) for key in PATHS},
        **{f"{key} of a new table": _created_by_commit(update) for key, update in DIRECTORY_UPDATES.items()},
    },
    "POST /{catalog}/transactions/commit": {
        key: _committed_together(update) for key, update in DIRECTORY_UPDATES.items()
    },
    "POST /{catalog}/namespaces/{namespace}/views": {
        "location": lambda _, location: _view(location=location),
        "write.metadata.path": lambda _, location: _view(properties={"write.metadata.path": location}),
    },
    "POST /{catalog}/namespaces/{namespace}/views/{view}": {
        key: _commit_to_view(update) for key, update in VIEW_UPDATES.items()
    },
    "POST /catalogs/{catalog}/tables": {
        key: lambda _, location, key=key: (  # type: ignore[misc]
            "POST",
            f"{API}/tables",
            {"name": "db.new", "columns": FIELDS, "properties": {key: location}},
        )
        for key in (*PATHS, PUBLISH)
    },
    "PATCH /catalogs/{catalog}/tables/{table}/properties": {
        key: lambda _, location, key=key: ("PATCH", f"{API}/tables/db.mine/properties", {"set": {key: location}})  # type: ignore[misc]
        for key in (*PATHS, PUBLISH)
    },
    "PATCH /catalogs/{catalog}/tables/{table}/policy": {
        PUBLISH: lambda _, location: ("PATCH", f"{API}/tables/db.mine/policy", {"set": {PUBLISH: location}})
    },
    "PUT /catalogs/{catalog}/policy": {
        PUBLISH: lambda _, location: ("PUT", f"{API}/policy?namespace=db", {"settings": {PUBLISH: location}})
    },
    "PATCH /catalogs/{catalog}/policy": {
        PUBLISH: lambda _, location: ("PATCH", f"{API}/policy?namespace=db", {"set": {PUBLISH: location}})
    },
}
_LEASES: dict[str, Lease] = {}
"""Of a job on the attacker's table, by the lake that it is on."""


def _opened_by_a_job(on: AttackedLake, location: str) -> Request:
    """What a job asks before it opens a file outside of its table's directories."""
    if on.warehouse not in _LEASES:
        _LEASES[on.warehouse] = on.lake.lease(JobKind.EXPIRE, MINE)
    return "POST", f"/api/v1/leases/{_LEASES[on.warehouse]}/locations", {"locations": [location]}


FILES: Mapping[str, Mapping[str, Enters]] = {
    "POST /leases/{lease}/locations": {"locations": _opened_by_a_job},
    "POST /{catalog}/namespaces/{namespace}/register": {
        "metadata-location": lambda _, location: (
            "POST",
            f"{ICEBERG}/namespaces/db/register",
            {"name": "new", "metadata-location": location},
        )
    },
    "POST /{catalog}/namespaces/{namespace}/register-view": {
        "metadata-location": lambda _, location: (
            "POST",
            f"{ICEBERG}/namespaces/db/register-view",
            {"name": "new", "metadata-location": location},
        )
    },
    "POST /catalogs/{catalog}/tables/{table}/register": {
        "metadata_location": lambda _, location: (
            "POST",
            f"{API}/tables/db.new/register",
            {"metadata_location": location},
        )
    },
    "POST /{catalog}/namespaces/{namespace}/tables/{table}": {
        **{key: _commit(update) for key, update in FILE_UPDATES.items()},
        **{f"{key} of a new table": _created_by_commit(update) for key, update in FILE_UPDATES.items()},
    },
    "POST /{catalog}/transactions/commit": {key: _committed_together(update) for key, update in FILE_UPDATES.items()},
}
SOURCES: Mapping[str, Mapping[str, Enters]] = {
    "POST /catalogs/{catalog}/imports": {
        "address": lambda _, location: ("POST", f"{API}/imports", {"source": "warehouse", "address": location})
    },
}
BEHIND_HIVE = {
    # Their properties are looked at by tests/server/service/hive/test_upgrade_steps.py, with a metastore.
    "POST /catalogs/{catalog}/hive/upgrade",
    "POST /catalogs/{catalog}/hive/{full_name}/upgrade",
    "POST /catalogs/{catalog}/hive/views/{full_name}",  # a view has no location of its own
    "POST /catalogs/{catalog}/hive/{full_name}/check",
}
OF_ADMINISTRATORS = {
    # Who may create catalogs decides where their tables lie.
    "POST /catalogs",
    "PATCH /catalogs/{catalog}/properties",
}
OF_OPTIMIZERS = {
    # What they send is compared with the job's own directories, whose rule is the table's: server.service.orphans,
    # server.service.hive.publish_commit, server.service.images.adoption, server.service.images.image_jobs.
    "POST /leases/{lease}/orphans",
    "POST /leases/{lease}/orphans/overdue",
    "POST /leases/{lease}/published",
    "POST /leases/{lease}/adopted",
    "POST /leases/{lease}/cleaned",
    "POST /leases/{lease}/image/complete",
    "POST /leases/{lease}/report",
    # A commit, with the checks of every commit: tests/server/service/pipelines/test_sets.py sends a foreign file.
    "POST /leases/{lease}/publish",
    "POST /leases/{lease}/chunk-commits",
}
WITHOUT = {
    # Queries refuse all files (see test_queries_open_no_file_of_another_table); nobody opens locations of events.
    *(f"POST /{name}" for name in ("lineage", "lineage/batch", "queries", "saved-queries")),
    "PUT /saved-queries/{saved_id}",
    # `location` of a namespace is told to engines, which send it with each table that they create.
    "POST /{catalog}/namespaces",
    "POST /{catalog}/namespaces/{namespace}/properties",
    "POST /catalogs/{catalog}/namespaces",
    # Nothing in them names a file.
    "PATCH /catalogs/{catalog}/description",
    "PATCH /catalogs/{catalog}/namespaces/{namespace}/description",
    "PATCH /catalogs/{catalog}/tables/{table}/description",
    "POST /catalogs/{catalog}/tables/{table}/distributions",
    "PATCH /catalogs/{catalog}/views/{view}/description",
    "POST /{catalog}/tables/rename",
    "POST /{catalog}/views/rename",
    "POST /{catalog}/namespaces/{namespace}/tables/{table}/metrics",
    "POST /{catalog}/namespaces/{namespace}/tables/{table}/plan",
    "POST /{catalog}/namespaces/{namespace}/tables/{table}/tasks",
    "POST /{catalog}/namespaces/{namespace}/tables/{table}/unregister",
    "POST /{catalog}/namespaces/{namespace}/tables/{table}/sign",  # a URL, confined to what is vended
    "POST /oauth/tokens",
    "POST /catalogs/{catalog}/dropped/{entry_id}/undrop",
    "POST /catalogs/{catalog}/hive/refresh",
    "POST /catalogs/{catalog}/hive/{full_name}/convert",
    "POST /catalogs/{catalog}/hive/{full_name}/downgrade",
    "POST /catalogs/{catalog}/hive/{full_name}/publish",
    "POST /catalogs/{catalog}/hive/{full_name}/sync",
    "POST /catalogs/{catalog}/imports/{operation_id}/resume",
    "POST /catalogs/{catalog}/namespaces/{namespace}/protect",
    "POST /catalogs/{catalog}/namespaces/{namespace}/unprotect",
    "POST /catalogs/{catalog}/views/{view}/rollback",
    "PUT /catalogs/{catalog}/tables/{table}/refs/{name:path}",
    "POST /catalogs/{catalog}/tables/{table}/refs/{name:path}/fast-forward",
    *(f"POST /catalogs/{{catalog}}/hive/upgrades/{{batch}}/{verb}" for verb in ("pause", "resume", "cancel")),
    *(
        f"POST /catalogs/{{catalog}}/tables/{{table}}/{verb}"
        for verb in (
            *("jobs", "quarantine/restore", "protect", "unprotect", "blockers"),
            *("rollback", "writers/{writer}", "consumers/{consumer}"),
        )
    ),
    # Queries name tables. Spark reads files by their paths, so the optimizer refuses queries that do.
    "PUT /pipelines/{pipeline}",
    "POST /pipelines/{pipeline}/runs",
    *(f"POST /pipelines/{{pipeline}}/tables/{{table}}/{verb}" for verb in ("reset", "publish", "discard")),
    "POST /pipelines/{pipeline}/tables/{table}/backfills",
    "POST /pipelines/{pipeline}/tables/{table}/replays",
    *(
        f"POST /pipelines/{{pipeline}}/tables/{{table}}/backfills/{{backfill_id}}/{verb}"
        for verb in ("pause", "resume", "cancel")
    ),
    "POST /leases/{lease}/chunks",
    "POST /leases/{lease}/chunk-takes",
    "POST /leases/{lease}/pins",
    "POST /leases/{lease}/checkpoint",
    "POST /leases/{lease}/image",
    "POST /leases/{lease}/image/credentials",
    *(f"POST /jobs/{{job_id}}/{verb}" for verb in ("cancel", "retry")),
    *(f"POST /operations/{{operation_id}}/{verb}" for verb in ("pause", "resume", "cancel")),
    *(f"POST /catalogs/{{catalog}}/tables/{{table}}/log/{verb}" for verb in ("skip", "reset", "columns")),
    *(f"POST /catalogs/{{catalog}}/tables/{{table}}/log/quarantine/{verb}" for verb in ("writer", "drop")),
    *(f"POST /streams/{{stream_id}}/{verb}" for verb in ("pause", "resume", "restart")),
    "POST /hadoop/check",  # the warehouses of the catalogs alone
    # Addresses of receivers, by an administrator.
    "POST /notifications/rules",
    "PATCH /notifications/rules/{rule}",
    "POST /notifications/rules/{rule}/test",
    "POST /notifications/rules/{rule}/retry",
    "POST /notifications/rules/{rule}/silence",
    "POST /notifications/{notification_id}/retry",
    "POST /connections",  # addresses of brokers, by an administrator
    "POST /connections/{connection}/check",
    "POST /catalogs/{catalog}/cdc/plan",
    "POST /groups",
    "PUT /groups/{group}",
    "PATCH /groups/{group}",
    "PUT /groups/{group}/launch",
    "PATCH /groups/{group}/launch",
    "POST /groups/{group}/launch/dry-run",
    "POST /groups/{group}/scale",
    "POST /optimizers",
    "POST /optimizers/{optimizer_id}/drain",
    "POST /optimizers/{optimizer_id}/undrain",
    "POST /query-leases",
    "PUT /query-leases/{lease}",
    "PUT /query-leases/{lease}/parts",
    "POST /query-leases/{lease}/report",
    # Judged by the rule of scans: tests/server/service/queries/test_spark_queries.py asks about files elsewhere.
    "POST /query-leases/{lease}/locations",
    "POST /stream-leases",
    "PUT /stream-leases/{lease}",
    "POST /stream-leases/{lease}/report",
    "POST /leases",
    "PUT /leases/{lease}",
    "POST /leases/{lease}/committing",
    "POST /tokens",
    "POST /roles",
    "POST /roles/{role}/grants",
    "POST /roles/{role}/grants/revoke",
    "PUT /roles/{role}/members/{name}",
    *(f"POST /{kind}s" for kind in ("user", "service")),
    *(f"POST /{kind}s/{{name}}/{verb}" for kind in ("user", "service") for verb in ("disable", "enable")),
    "POST /services/{name}/secret",
}
WITH_BODIES = {
    f"{method} {path}"
    for needed in (route_rules.ICEBERG, route_rules.API, route_rules.SERVER)
    for method, path in needed
    if method in ("POST", "PUT", "PATCH")
}
