"""A server with access control, and on it one catalog with a thing of every kind that a request can name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import httpx

from firn.protocol.leases import PROTOCOL
from tests.server.guarded import SQL
from tests.server.lake import COLUMNS

SNAPSHOT = 1001
_numbers = count(1)


@dataclass
class RequestTargets:
    """What requests are thrown at. Everything has names of its own: what a test breaks, no other one meets."""

    http: httpx.Client
    directory: Path
    number: int = field(default_factory=lambda: next(_numbers))
    ids: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.directory / self.catalog).mkdir(parents=True)
        self.mend()

    @property
    def catalog(self) -> str:
        return f"c{self.number}"

    @property
    def warehouse(self) -> str:
        return (self.directory / self.catalog).as_uri()

    @property
    def user(self) -> str:
        return f"user-{self.number}"

    @property
    def service(self) -> str:
        return f"service-{self.number}"

    @property
    def lake(self) -> Mapping[str, str]:
        """What the bodies of requests to the Iceberg routes may name."""
        loaded = self.http.get(f"{self._tables}/t").json()
        metadata = loaded["metadata"]
        named = {"namespace": "db", "table": "t", "view": "v", "uuid": metadata["table-uuid"]}
        return {**named, "location": metadata["location"], "metadata": loaded["metadata-location"]}

    def of_iceberg(self) -> Mapping[str, str]:
        """What the paths of the Iceberg routes may name."""
        named = {"catalog": self.catalog, "namespace": "db", "table": "t", "view": "v", "plan_id": "x"}
        return {**named, "warehouse": self.catalog, "parent": "db"}

    def of_management(self, path: str) -> Mapping[str, str]:
        """What this path of the management API may name."""
        named = {
            "catalog": self.catalog,
            "namespace": "db",
            "table": "db.t",
            "view": "db.v",
            "full_name": "db.t",
            "writer": "w",
            "consumer": "c",
        }
        return {**named, "name": self._called(path), "role": f"role-{self.number}", **self.ids}

    def iceberg_bodies(self) -> Mapping[str, Any]:
        """The same for the Iceberg routes."""
        namespace = "/{catalog}/namespaces/{namespace}"
        table, lake = f"{namespace}/tables/{{table}}", self.lake
        renamed = {"source": {"namespace": ["db"], "name": "t"}, "destination": {"namespace": ["db"], "name": "t2"}}
        properties = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"a": "b"}}]}
        again = {"name": "again", "metadata-location": lake["metadata"]}
        return {
            "POST /{catalog}/namespaces": {"namespace": ["db", "inner"], "properties": {"a": "b"}},
            f"POST {namespace}/tables": {"name": "new", "schema": COLUMNS, "properties": {"a": "b"}},
            f"POST {namespace}/register": again,
            f"POST {table}": {**properties, "requirements": [{"type": "assert-table-uuid", "uuid": lake["uuid"]}]},
            f"POST {table}/plan": {"filter": {"type": "eq", "term": "id", "value": 1}, "select": ["id"]},
            f"POST {namespace}/views": {"name": "new", "schema": COLUMNS, "view-version": SQL, "properties": {}},
            "POST /{catalog}/tables/rename": renamed,
            "POST /{catalog}/transactions/commit": {
                "table-changes": [{"identifier": {"namespace": ["db"], "name": name}, **properties} for name in "t"]
            },
        }

    def bodies(self) -> Mapping[str, Any]:
        """Bodies that do something, for what random text would never do."""
        table = "/catalogs/{catalog}/tables/{table}"
        columns = [{"name": "id", "type": "long"}, {"name": "part", "type": "string"}]
        grant = {"on": {"catalog": self.catalog, "namespace": ["db"]}, "privileges": ["read"]}
        return {
            "POST /catalogs": {"name": "more", "warehouse": f"{self.warehouse}/more", "properties": {"a": "b"}},
            "POST /catalogs/{catalog}/namespaces": {"name": "db.inner", "properties": {"a": "b"}},
            "POST /catalogs/{catalog}/tables": {"name": "db.new", "columns": columns, "primary_key": ["id"]},
            "POST /catalogs/{catalog}/imports": {"source": "warehouse", "address": self.warehouse},
            "POST /catalogs/{catalog}/hive/{full_name}/upgrade": {"primary_key": ["id"]},
            "POST /catalogs/{catalog}/hive/upgrade": {"tables": ["db.*"], "keys": {"db.t": {"primary_key": ["id"]}}},
            "PUT /catalogs/{catalog}/policy": {"settings": {"firn.optimize.enabled": "false"}},
            f"PATCH {table}/properties": {"set": {"a": "b"}, "remove": ["c"]},
            f"PUT {table}/refs/{{name}}": {"type": "tag", "snapshot_id": SNAPSHOT},
            f"POST {table}/refs/{{name}}/fast-forward": {"to": "main"},
            f"POST {table}/rollback": {"snapshot_id": SNAPSHOT},
            f"POST {table}/register": {"metadata_location": self.lake["metadata"]},
            "POST /catalogs/{catalog}/views/{view}/rollback": {"version_id": 1},
            "POST /leases": {"optimizer_id": self.ids["optimizer_id"], "kinds": ["expire"], "wait_seconds": 0},
            "POST /leases/{lease}/report": {"outcome": "nothing"},
            "POST /roles/{role}/grants": grant,
            "POST /roles/{role}/grants/revoke": grant,
            "POST /services": {"name": "more"},
            "POST /users": {"name": "more"},
            "POST /tokens": {"name": "more", "owner": self.user},
        }

    def mend(self) -> None:
        """Make what is not there, or not any more."""
        self._ask("POST", "/api/v1/catalogs", {"name": self.catalog, "warehouse": self.warehouse})
        self._ask("POST", f"/iceberg/v1/{self.catalog}/namespaces", {"namespace": ["db"]})
        for name in ("t", "gone", "busy"):
            self._ask("POST", self._tables, {"name": name, "schema": COLUMNS})
        self._ask("POST", self._tables, {"name": "orders", "schema": COLUMNS, "properties": {"firn.primary-key": "id"}})
        self._ask("POST", self._views, {"name": "v", "schema": COLUMNS, "view-version": SQL, "properties": {}})
        self._ask("POST", f"{self._tables}/t", self._append())
        self._ask("DELETE", f"{self._tables}/gone")
        tag = {"type": "tag", "snapshot_id": SNAPSHOT}
        self._ask("PUT", f"/api/v1/catalogs/{self.catalog}/tables/db.t/refs/tag", tag)
        self._ask("POST", "/api/v1/roles", {"name": f"role-{self.number}"})
        self._ask("POST", "/api/v1/users", {"name": self.user})
        self._ask("POST", "/api/v1/services", {"name": self.service})
        self.ids |= self._ids()

    @property
    def _tables(self) -> str:
        return f"/iceberg/v1/{self.catalog}/namespaces/db/tables"

    @property
    def _views(self) -> str:
        return f"/iceberg/v1/{self.catalog}/namespaces/db/views"

    def _called(self, path: str) -> str:
        """What `{name}` means in a path of the management API."""
        if "/refs/" in path:
            return "tag"
        return self.service if path.startswith("/services") else self.user

    def _append(self) -> Any:
        snapshot = {
            "snapshot-id": SNAPSHOT,
            "sequence-number": 1,
            "timestamp-ms": 2_000_000_000_000,
            "manifest-list": f"{self.warehouse}/snap.avro",
            "schema-id": 0,
            "summary": {"operation": "append", "added-records": "10", "total-records": "10"},
        }
        ref = {"ref-name": "main", "type": "branch", "snapshot-id": SNAPSHOT}
        return {
            "requirements": [],
            "updates": [{"action": "add-snapshot", "snapshot": snapshot}, {"action": "set-snapshot-ref", **ref}],
        }

    def _ids(self) -> Mapping[str, str]:
        """What the server gave the ids of."""
        dropped = self._ask("GET", f"/api/v1/catalogs/{self.catalog}/dropped")["items"]
        job = self._ask("POST", f"/api/v1/catalogs/{self.catalog}/tables/db.busy/jobs", {"kind": "expire"})
        source = {"source": "warehouse", "address": self.warehouse}
        operation = self._ask("POST", f"/api/v1/catalogs/{self.catalog}/imports", source)
        comes = {"host": "h", "pid": 1, "version": "0", "protocol": PROTOCOL}
        optimizer = self._ask("POST", "/api/v1/optimizers", comes)
        lease_request = {"optimizer_id": optimizer["id"], "kinds": ["expire", "merge"], "wait_seconds": 0}
        lease = self._ask("POST", "/api/v1/leases", lease_request)
        token = self._ask("POST", "/api/v1/tokens", {"name": "made", "owner": self.user})
        ended = self._ask("GET", f"/api/v1/catalogs/{self.catalog}/tables/db.busy/jobs")["items"]
        names = {
            "entry_id": dropped[0]["id"] if dropped else None,
            "job_id": job.get("id") or (ended[0]["id"] if ended else None),
            "operation_id": operation.get("id"),
            "batch": operation.get("id"),
            "optimizer_id": optimizer["id"],
            "lease": lease.get("lease"),
            "token_id": token.get("id"),
        }
        return {name: str(value) for name, value in names.items() if value is not None}

    def _ask(self, method: str, path: str, body: Any = None) -> Any:
        answer = self.http.request(method, path, json=body)
        assert answer.status_code < 500, answer.text
        return answer.json() if answer.content else {}
