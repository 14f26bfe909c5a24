"""Every route, with a body and a query for it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firn.protocol.leases import PROTOCOL
from server.guard import route_rules
from tests.server.guarded import PIPELINE, SQL
from tests.server.lake import COLUMNS

RULES = {"/iceberg/v1": route_rules.ICEBERG, "/api/v1": route_rules.API, "": route_rules.SERVER}
ROUTES = [(app, method, path) for app, needed in RULES.items() for method, path in needed]
NAMED: Mapping[str, Any] = {"namespace": ["secret"], "name": "t"}
BODIES: Mapping[str, Any] = {
    "POST /{catalog}/namespaces": {"namespace": ["secret", "inner"]},
    "POST /{catalog}/namespaces/{namespace}/tables": {"name": "n", "schema": COLUMNS},
    "POST /{catalog}/namespaces/{namespace}/register": {"name": "n", "metadata-location": "file:/n.metadata.json"},
    "POST /{catalog}/namespaces/{namespace}/register-view": {"name": "n", "metadata-location": "file:/n.metadata.json"},
    "POST /{catalog}/namespaces/{namespace}/tables/{table}": {"requirements": [], "updates": []},
    "POST /{catalog}/namespaces/{namespace}/tables/{table}/metrics": {"report-type": "scan-report"},
    "POST /{catalog}/tables/rename": {"source": NAMED, "destination": {"namespace": ["open"], "name": "t2"}},
    "POST /{catalog}/views/rename": {
        "source": {"namespace": ["secret"], "name": "v"},
        "destination": {"namespace": ["open"], "name": "v2"},
    },
    "POST /{catalog}/transactions/commit": {
        "table-changes": [{"identifier": NAMED, "requirements": [], "updates": []}]
    },
    "POST /{catalog}/namespaces/{namespace}/views": {"name": "n", "schema": COLUMNS, "view-version": SQL},
    "POST /{catalog}/namespaces/{namespace}/views/{view}": {"requirements": [], "updates": []},
    "POST /{catalog}/namespaces/{namespace}/properties": {"updates": {"a": "b"}},
    "POST /{catalog}/namespaces/{namespace}/tables/{table}/plan": {},
    "POST /{catalog}/namespaces/{namespace}/tables/{table}/tasks": {"plan-task": "x"},
    "POST /{catalog}/namespaces/{namespace}/tables/{table}/sign": {
        "region": "us-east-1",
        "method": "GET",
        "uri": "https://s3.amazonaws.com/lake/a",
        "headers": {},
    },
    "POST /catalogs": {"name": "more", "warehouse": "file:///nowhere"},
    "POST /catalogs/{catalog}/namespaces": {"name": "secret.inner"},
    "PUT /catalogs/{catalog}/policy": {"settings": {}},
    "PATCH /catalogs/{catalog}/policy": {},
    "POST /catalogs/{catalog}/tables": {"name": "secret.n", "columns": [{"name": "id", "type": "long"}]},
    "PATCH /catalogs/{catalog}/tables/{table}/properties": {"set": {"a": "b"}},
    "PATCH /catalogs/{catalog}/tables/{table}/policy": {},
    "POST /catalogs/{catalog}/tables/{table}/jobs": {"kind": "expire"},
    "POST /catalogs/{catalog}/tables/{table}/blockers": {"reason": "a load", "until": "2199-01-01T00:00:00Z"},
    "PATCH /catalogs/{catalog}/properties": {"set": {"a": "b"}},
    "PUT /catalogs/{catalog}/tables/{table}/refs/{name:path}": {"type": "tag"},
    "POST /catalogs/{catalog}/tables/{table}/refs/{name:path}/fast-forward": {"to": "main"},
    "POST /catalogs/{catalog}/tables/{table}/rollback": {"snapshot_id": 1},
    "POST /catalogs/{catalog}/tables/{table}/log/reset": {"to": "earliest"},
    "POST /catalogs/{catalog}/tables/{table}/log/quarantine/drop": {"snapshot_id": "1"},
    "POST /catalogs/{catalog}/tables/{table}/log/quarantine/writer": {"epoch": 1},
    "POST /catalogs/{catalog}/tables/{table}/register": {"metadata_location": "file:/n.metadata.json"},
    "POST /catalogs/{catalog}/views/{view}/rollback": {"version_id": 1},
    "POST /catalogs/{catalog}/imports": {"source": "warehouse", "address": "file:/nowhere"},
    "POST /catalogs/{catalog}/hive/{full_name}/upgrade": {},
    "POST /catalogs/{catalog}/hive/{full_name}/convert": {"name": "open.copy"},
    "POST /catalogs/{catalog}/hive/upgrade": {"tables": ["secret.*"]},
    "POST /connections": {"name": "c", "brokers": ["127.0.0.1:9092"]},
    "POST /catalogs/{catalog}/cdc/plan": {
        "name": "shop",
        "format": "debezium-json",
        "connection": "c",
        "topics": ["shop.*"],
        "tables": [{"include": "shop.*", "table": "secret.\\1"}],
    },
    "POST /groups": {"name": "g"},
    "PUT /groups/{group}": {},
    "PATCH /groups/{group}": {},
    "PUT /groups/{group}/launch": {"kind": "none"},
    "PATCH /groups/{group}/launch": {},
    "POST /groups/{group}/launch/dry-run": {"kind": "local"},
    "POST /groups/{group}/scale": {"minimum": 0, "maximum": 0},
    "POST /optimizers": {"host": "h", "pid": 1, "version": "0", "protocol": PROTOCOL},
    "POST /optimizers/{optimizer_id}/drain": {},
    "POST /stream-leases": {"optimizer_id": "x", "wait_seconds": 0},
    "PUT /stream-leases/{lease}": {},
    "POST /stream-leases/{lease}/report": {"outcome": "failed"},
    "POST /leases": {"optimizer_id": "x", "kinds": ["merge"], "wait_seconds": 0},
    "PUT /leases/{lease}": {},
    "POST /leases/{lease}/locations": {"locations": []},
    "POST /leases/{lease}/report": {"outcome": "nothing"},
    "POST /leases/{lease}/published": {"location": "x", "rows": 0},
    "POST /leases/{lease}/adopted": {
        "layer": {"packs": [], "hidden": [], "replaced_vectors": [], "keys": 0, "hidden_rows": 0},
        "base_snapshot_id": None,
        "change_snapshot_id": None,
        "watermark": 0,
        "through": 0,
    },
    "POST /leases/{lease}/cleaned": {"files": []},
    "POST /leases/{lease}/image/complete": {
        "build": "00000000-0000-4000-8000-000000000000",
        "watermark": 0,
        "layer": {"packs": [], "hidden": [], "replaced_vectors": [], "keys": 0, "hidden_rows": 0},
    },
    "POST /leases/{lease}/orphans": {"files": []},
    "POST /catalogs/{catalog}/tables/{table}/quarantine/restore": {},
    "PUT /pipelines/{pipeline}": PIPELINE,
    "POST /pipelines/{pipeline}/runs": {"table": "secret.daily"},
    "POST /pipelines/{pipeline}/tables/{table}/backfills": {"where": "id > 1"},
    "POST /pipelines/{pipeline}/tables/{table}/replays": {},
    "POST /leases/{lease}/chunks": {"table": "db.t", "epoch": 1, "checkpoint": "x"},
    "POST /leases/{lease}/pins": {"targets": [{"table": "db.t", "fingerprint": "a" * 64}]},
    "POST /leases/{lease}/checkpoint": {"table": "db.t", "epoch": 1, "start": "none", "end": "x"},
    "POST /leases/{lease}/publish": {"moves": [{"table": "db.t", "epoch": 1, "start": "none", "end": "x"}]},
    "POST /queries": {"statement": "SELECT * FROM secret.t", "catalog": "lake"},
    "POST /saved-queries": {"name": "mine", "statement": "SELECT 1", "catalog": "lake"},
    "PUT /saved-queries/{saved_id}": {"name": "mine", "statement": "SELECT 1", "catalog": "lake"},
    "POST /tokens": {"name": "mine"},
    "POST /roles": {"name": "new"},
    "POST /roles/{role}/grants": {"on": {"catalog": "lake", "namespace": ["secret"]}, "privileges": ["read"]},
    "POST /roles/{role}/grants/revoke": {"on": {"catalog": "lake", "namespace": ["secret"]}, "privileges": ["read"]},
    "POST /users": {"name": "new"},
    "POST /services": {"name": "new"},
}
QUERIES: Mapping[str, Mapping[str, str]] = {
    "GET /config": {"warehouse": "lake"},
    "GET /{catalog}/namespaces": {"parent": "secret"},
    "GET /catalogs/{catalog}/namespaces": {"parent": "secret"},
    "GET /catalogs/{catalog}/policy": {"namespace": "secret"},
    "PUT /catalogs/{catalog}/policy": {"namespace": "secret"},
    "PATCH /catalogs/{catalog}/policy": {"namespace": "secret"},
}
