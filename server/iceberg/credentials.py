"""Credentials for a table's files: handed out with a load, or by a request of their own."""

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
from server.iceberg.clients import config_told, takes_config_for_credentials
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
    """The access that a client asks for with a table."""

    services: Services
    caller: Caller | None
    asked: tuple[Mechanism, ...]
    lease: Lease | None = None
    """Of the job that asks, if one does."""

    def to(self, catalog: CatalogName, name: TableName) -> AccessGrant | None:
        """What it is given; None when it has not asked, and nothing is looked up then."""
        if not self.asked:
            return None
        return self.services.vending.grant(self.caller, catalog, name, self.asked, self.lease)

    def to_staged(self, catalog: CatalogName, name: TableName, metadata: Json) -> AccessGrant | None:
        """The same for a table that is to be created by a commit."""
        if not self.asked:
            return None
        return self.services.vending.grant_staged(self.caller, catalog, name, metadata, self.asked)


def requested_delegation(request: Request) -> Delegation:
    """What the header asks for; mechanisms that nobody knows are passed over."""
    wanted = {one.strip() for one in request.headers.get("x-iceberg-access-delegation", "").split(",")}
    asked = tuple(one for one in Mechanism if one in wanted)
    return Delegation(request.app.state.services, caller_of(request), asked, lease_in(request) if asked else None)


async def access_delegation(request: Request) -> Delegation:
    """For routes that create."""
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
    """New credentials for a table's files; those of a plan's are the same."""
    del plan_id
    found = services.vending.issue_credential(caller_of(request), catalog, name, lease)
    answer = json_response({"storage-credentials": [] if found is None else [_written(found, catalog, name)]})
    answer.headers.update(_NO_STORE)
    return answer


def loaded_with_access(
    catalog: CatalogName, name: TableName, loaded: Loaded, granted: AccessGrant | None, *, snapshots: str = "all"
) -> Response:
    """A loaded table, and what the client was given to reach its files with."""
    config, more = access_parts(catalog, name, granted)
    answer = loaded_response(
        loaded.metadata_location,
        loaded.text,
        etag=tag_of(name, loaded, granted, snapshots),
        config={**config_told(loaded.config), **config},
        more=more,
    )
    if granted is not None and granted.credential is not None:
        answer.headers.update(_NO_STORE)
    return answer


def tag_of(name: TableName, loaded: Loaded, granted: AccessGrant | None, snapshots: str) -> str:
    """The entity tag of a load. With other credentials it is another answer: nobody is told to keep ended ones."""
    told = (f"{key}={value}" for key, value in sorted(config_told(loaded.config).items()))
    access = () if granted is None else granted.tag
    return etag_of(loaded.metadata_location or "", str(name), snapshots, *told, *access)


def access_parts(
    catalog: CatalogName, name: TableName, granted: AccessGrant | None
) -> tuple[Mapping[str, str], Mapping[str, object]]:
    """What access adds to the configuration of a table, and beside it."""
    if granted is None:
        return {}, {}
    if granted.credential is None and takes_config_for_credentials():
        return {}, {}
    refused = {} if granted.refused is None else {REFUSED: granted.refused}
    config = {**granted.hints, **refused}
    if granted.credential is not None:
        written = _written(granted.credential, catalog, name)
        # Older clients look for credentials here only.
        return {**config, **written["config"]}, {"storage-credentials": [written]}
    if granted.signs:
        # Paths, which clients complete by the address that they know the catalog under: the server may not know it.
        endpoint = f"{_path(catalog, name)}/sign"
        signer = {"s3.remote-signing-enabled": "true", "signer.endpoint": endpoint, "s3.signer.endpoint": endpoint}
        return {**config, **signer, **_PY_SIGNER}, {"remote-signing-config": {"properties": {}, "headers": {}}}
    return config, {}


def _written(credential: Credential, catalog: CatalogName, name: TableName) -> dict[str, Any]:
    config = dict(credential.config)
    if "s3.session-token-expires-at-ms" in config:
        config["client.refresh-credentials-endpoint"] = f"{_path(catalog, name)}/credentials"
    return {"prefix": credential.prefix, "config": config}


def _path(catalog: CatalogName, name: TableName) -> str:
    namespace = quote(encode_namespace(name.namespace), safe="")
    return f"v1/{quote(catalog, safe='')}/namespaces/{namespace}/tables/{quote(name.name, safe='')}"
