"""Credentials for a table's files, in the answer to a load or to a separate request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, Query, Request, Response

from catalog.access.privileges import Caller
from catalog.iceberg.json import Json
from catalog.jobs.leases import Lease
from catalog.names import CatalogName, TableName, encode_namespace
from server.iceberg.clients import filter_config, is_duckdb
from server.iceberg.requests import (
    CatalogDep,
    LeaseDep,
    ServicesDep,
    TableDep,
    caller_of,
    etag_of,
    json_response,
    lease_in,
    loaded_response,
)
from server.service.access.credential_vending import AccessGrant, Credential, Mechanism
from server.service.services import Services
from server.service.tables.tables import Loaded

router = APIRouter(prefix="/{catalog}/namespaces/{namespace}/tables/{table}")
_NO_STORE = {"Cache-Control": "no-store"}
_PY_SIGNER = {"s3.signer": "S3V4RestSigner", "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"}
REFUSED = "firn.storage.refused"


@dataclass(frozen=True, slots=True)
class Delegation:
    """The access to files that a client requests with a table."""

    services: Services
    caller: Caller | None
    mechanisms: tuple[Mechanism, ...]
    lease: Lease | None = None
    """The lease of the requesting job, if any."""

    def to(self, catalog: CatalogName, name: TableName) -> AccessGrant | None:
        """Grant access to a table; None, without a lookup, if the client requests none."""
        if not self.mechanisms:
            return None
        return self.services.vending.grant(self.caller, catalog, name, self.mechanisms, self.lease)

    def to_staged(self, catalog: CatalogName, name: TableName, metadata: Json) -> AccessGrant | None:
        """Grant access to a table that a later commit creates; None if the client requests none."""
        if not self.mechanisms:
            return None
        return self.services.vending.grant_staged(self.caller, catalog, name, metadata, self.mechanisms)


def requested_delegation(request: Request) -> Delegation:
    """Parse the requested access from the header, ignoring unknown mechanisms."""
    names = {name.strip() for name in request.headers.get("x-iceberg-access-delegation", "").split(",")}
    mechanisms = tuple(mechanism for mechanism in Mechanism if mechanism in names)
    return Delegation(
        request.app.state.services, caller_of(request), mechanisms, lease_in(request) if mechanisms else None
    )


async def access_delegation(request: Request) -> Delegation:
    """Parse the requested access, as a dependency of routes that create tables."""
    return requested_delegation(request)


DelegationDep = Annotated[Delegation, Depends(access_delegation)]


@router.get("/credentials")
def load_credentials(
    services: ServicesDep,
    request: Request,
    catalog: CatalogDep,
    name: TableDep,
    lease: LeaseDep,
    plan_id: Annotated[str | None, Query(alias="planId")] = None,
) -> Response:
    """Get new credentials for a table's files; a scan plan uses the same."""
    del plan_id
    credential = services.vending.issue_credential(caller_of(request), catalog, name, lease)
    answer = json_response(
        {"storage-credentials": [] if credential is None else [_encode_credential(credential, catalog, name)]}
    )
    answer.headers.update(_NO_STORE)
    return answer


def loaded_with_access(
    catalog: CatalogName, name: TableName, loaded: Loaded, granted: AccessGrant | None, *, snapshots: str = "all"
) -> Response:
    """Build the answer with a loaded table and the granted access to its files."""
    config, more = access_parts(catalog, name, granted)
    answer = loaded_response(
        loaded.metadata_location,
        loaded.text,
        etag=tag_of(name, loaded, granted, snapshots),
        config={**filter_config(loaded.config), **config},
        more=more,
    )
    if granted is not None and granted.credential is not None:
        answer.headers.update(_NO_STORE)
    return answer


def tag_of(name: TableName, loaded: Loaded, granted: AccessGrant | None, snapshots: str) -> str:
    """Compute the entity tag of a load; it changes with the credentials, so that no client keeps ended ones."""
    config = (f"{key}={value}" for key, value in sorted(filter_config(loaded.config).items()))
    access = () if granted is None else granted.tag
    return etag_of(loaded.metadata_location or "", str(name), snapshots, loaded.state, *config, *access)


def access_parts(
    catalog: CatalogName, name: TableName, granted: AccessGrant | None
) -> tuple[Mapping[str, str], Mapping[str, object]]:
    """Build the granted access as configuration of the table, and as storage credentials."""
    if granted is None:
        return {}, {}
    if granted.credential is None and is_duckdb():
        return {}, {}
    refused = {} if granted.refused is None else {REFUSED: granted.refused}
    config = {**granted.hints, **refused}
    if granted.credential is not None:
        written = _encode_credential(granted.credential, catalog, name)
        # Older clients read credentials only here.
        return {**config, **written["config"]}, {"storage-credentials": [written]}
    if granted.signs:
        # A path, which the client combines with its address of the catalog; the server may not know that address.
        endpoint = f"{_path(catalog, name)}/sign"
        signer = {"s3.remote-signing-enabled": "true", "signer.endpoint": endpoint, "s3.signer.endpoint": endpoint}
        return {**config, **signer, **_PY_SIGNER}, {"remote-signing-config": {"properties": {}, "headers": {}}}
    return config, {}


def _encode_credential(credential: Credential, catalog: CatalogName, name: TableName) -> dict[str, Any]:
    config = dict(credential.config)
    if "s3.session-token-expires-at-ms" in config:
        config["client.refresh-credentials-endpoint"] = f"{_path(catalog, name)}/credentials"
    return {"prefix": credential.prefix, "config": config}


def _path(catalog: CatalogName, name: TableName) -> str:
    namespace = quote(encode_namespace(name.namespace), safe="")
    return f"v1/{quote(catalog, safe='')}/namespaces/{namespace}/tables/{quote(name.name, safe='')}"
