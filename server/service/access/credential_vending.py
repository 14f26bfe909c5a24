"""Access to a table's files for those who may use the table: credentials for S3, or signatures for single requests.

Reading takes the privilege to read, writing that to write or maintain. Whatever stands in the way, the table itself is
served: the answer then says why there are no credentials. Only a request for credentials or a signature is refused.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import NamedTuple

from cachetools import LRUCache, TTLCache

from catalog.access.privileges import Caller
from catalog.credentials.reach import Reach, S3Place, find_common_prefix, list_locations
from catalog.credentials.session_policy import LONGEST_POLICY, build_session_name, build_session_policy
from catalog.credentials.signing import SignRequest, check_signable
from catalog.credentials.storage_config import StorageConfig
from catalog.credentials.storage_config import Vending as Mode
from catalog.errors import CatalogError, Forbidden, Invalid, LocationRefused
from catalog.iceberg.json import Json
from catalog.jobs.leases import Lease, check_lease
from catalog.locations.links import Links
from catalog.locations.location_rule import AllowedLocations, list_own_locations
from catalog.names import CatalogName, TableName
from catalog.ports.credentials import Cloud, Keys, ToSign
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Relation
from server.service.access.access_control import Access
from server.service.locations.location_rule import find_kin, load_allowed_locations, load_storage
from server.service.tables.keyed_tables import find_serving_table
from server.service.tables.metadata_files import MetadataFiles

log = logging.getLogger(__name__)

MOST_SESSIONS = 10_000
MAX_SCOPES = 10_000
SCOPE_SECONDS = 10
"""How long places are remembered: an engine asks for a signature for each request that it makes."""


class Mechanism(StrEnum):
    """How a client can be given access, as the header X-Iceberg-Access-Delegation calls it."""

    CREDENTIALS = "vended-credentials"
    SIGNING = "remote-signing"


class Credential(NamedTuple):
    """What a client reaches all below `prefix` with."""

    prefix: str
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessGrant:
    """What a client is told of a table's storage."""

    hints: Mapping[str, str]
    credential: Credential | None = None
    signs: bool = False
    refused: str | None = None
    """Why it is given no access."""

    @property
    def tag(self) -> tuple[str, ...]:
        """What of it an entity tag has to tell apart: other credentials are another answer."""
        config = {} if self.credential is None else self.credential.config
        key, until = config.get("s3.access-key-id", ""), config.get("s3.session-token-expires-at-ms", "")
        hints = (f"{name}={value}" for name, value in sorted(self.hints.items()))
        return ("delegated", key, until, str(self.signs), self.refused or "", *hints)


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticKeys:
    """What `firn.storage.vending=static` hands out."""

    read: Keys | None = None
    write: Keys | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileScope:
    """Where a table's files lie, and why nobody is given access to them, if so."""

    storage: StorageConfig
    locations: tuple[str, ...] = ()
    own: tuple[S3Place, ...] = ()
    all: tuple[S3Place, ...] = ()
    why_not: str | None = None

    def reach(self, *, write: bool) -> Reach:
        """Of somebody who may read, or write too."""
        return Reach.to(self.own, self.all, write=write)


class _Session(NamedTuple):
    keys: Keys
    renew_at: datetime


@dataclass(frozen=True, kw_only=True)
class Vending:
    """Safe to share between threads."""

    database: Database
    metadata: MetadataFiles
    access: Access
    cloud: Cloud
    static: StaticKeys = StaticKeys()
    _sessions: LRUCache[object, _Session] = field(default_factory=lambda: LRUCache(MOST_SESSIONS))
    _scopes: TTLCache[object, FileScope] = field(default_factory=lambda: TTLCache(MAX_SCOPES, SCOPE_SECONDS))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def grant(
        self,
        caller: Caller | None,
        catalog: CatalogName,
        name: TableName,
        asked: Sequence[Mechanism],
        lease: Lease | None = None,
    ) -> AccessGrant:
        """What a client that asks for these mechanisms is given with a table that is there.

        A job shows its lease, and is given access to its own tables alone, while the lease lasts.
        """
        with self.database.reading() as uow:
            storage = load_storage(uow, catalog)
        if not storage.hands_out:  # most clients ask always
            return AccessGrant(hints=storage.hints)
        scope, pinned = self._find_scope(catalog, name)
        if (why_not := self._why_not_leased(lease, catalog, name)) is not None:
            return AccessGrant(hints=scope.storage.hints, refused=why_not)
        if not self.access.may_read(caller, catalog, name):
            return AccessGrant(hints=scope.storage.hints, refused="it takes the privilege to read the table")
        write = not pinned and self.access.may_write(caller, catalog, name)
        return self._granted(scope, caller, name, asked, write=write)

    def grant_staged(
        self, caller: Caller | None, catalog: CatalogName, name: TableName, metadata: Json, asked: Sequence[Mechanism]
    ) -> AccessGrant:
        """The same for a table whose data are written before it is created: its sender may create it.

        Requests for it are not signed: nothing says afterwards which table was meant.
        """
        with self.database.reading() as uow:
            scope = _build_scope(uow, self.metadata.files, catalog, None, metadata)
        asked = [one for one in asked if one is not Mechanism.SIGNING]
        return self._granted(scope, caller, name, asked, write=True)

    def _why_not_leased(self, lease: Lease | None, catalog: CatalogName, name: TableName) -> str | None:
        """Why a request that comes with a lease is given nothing; None for one that comes without."""
        if lease is None:
            return None
        with self.database.reading() as uow:
            try:
                job = check_lease(uow.jobs.get(lease.job_id), lease)
            except CatalogError as error:
                return error.message
            table, _ = find_serving_table(uow, catalog, name)
            if job.relation_id not in (table.id, table.owner_id):
                return "the job that the request came with works on another table"
        return None

    def issue_credential(
        self, caller: Caller | None, catalog: CatalogName, name: TableName, lease: Lease | None = None
    ) -> Credential | None:
        """New credentials for a table; None in a catalog that gives none, Forbidden when this table gets none.

        NoSuchTable without the table.
        """
        with self.database.reading() as uow:
            uow.catalogs.get(catalog)
            find_serving_table(uow, catalog, name)
        granted = self.grant(caller, catalog, name, [Mechanism.CREDENTIALS], lease)
        if granted.refused is not None:
            raise Forbidden(f"no credentials for {name}: {granted.refused}")
        return granted.credential

    def sign(
        self,
        caller: Caller | None,
        catalog: CatalogName,
        name: TableName,
        request: SignRequest,
        lease: Lease | None = None,
    ) -> Mapping[str, str]:
        """The headers that sign a request to S3; Forbidden when it goes beyond what the caller may do."""
        scope, pinned = self._find_scope(catalog, name, remembered=True)
        if not scope.storage.signs:
            raise Forbidden(f"requests are not signed in the catalog {catalog}")
        if scope.why_not is not None:
            raise Forbidden(f"no signatures for {name}: {scope.why_not}")
        if (why_not := self._why_not_leased(lease, catalog, name)) is not None:
            raise Forbidden(f"no signatures for {name}: {why_not}")
        if not self.access.may_read(caller, catalog, name):
            raise Forbidden(f"signatures for {name} take the privilege to read it")
        write = not pinned and self.access.may_write(caller, catalog, name)
        found = check_signable(request, scope.reach(write=write), scope.storage)
        return self.cloud.signature(
            ToSign(
                method=request.method,
                url=request.uri,
                headers=found.headers,
                payload=found.payload,
                region=scope.storage.signing_region,
            )
        )

    def _find_scope(self, catalog: CatalogName, name: TableName, *, remembered: bool = False) -> tuple[FileScope, bool]:
        """Remembered for the table as it is at this moment, by its metadata; and whether it is a pinned table."""
        with self.database.reading() as uow:
            uow.catalogs.get(catalog)
            relation, pinned = find_serving_table(uow, catalog, name)
            location = relation.metadata_location or ""
            with self._lock:
                known = self._scopes.get((relation.id, location)) if remembered else None
            if known is not None:
                return known, pinned
            scope = _build_scope(uow, self.metadata.files, catalog, relation, self.metadata.load(location).parsed)
        with self._lock:
            self._scopes[relation.id, location] = scope
        return scope, pinned

    def _granted(
        self, scope: FileScope, caller: Caller | None, name: TableName, asked: Sequence[Mechanism], *, write: bool
    ) -> AccessGrant:
        storage = scope.storage
        vends = Mechanism.CREDENTIALS in asked and storage.vending is not Mode.NONE
        signs = Mechanism.SIGNING in asked and storage.signs and not vends
        if not vends and not signs:
            return AccessGrant(hints=storage.hints)
        if scope.why_not is not None:
            return AccessGrant(hints=storage.hints, refused=scope.why_not)
        if signs:
            return AccessGrant(hints=storage.hints, signs=True)
        try:
            keys = self._keys(scope, caller, name, write=write)
        except CatalogError as error:
            log.warning("no credentials", extra={"table": str(name), "reason": error.message})
            return AccessGrant(hints=storage.hints, refused=f"the storage gives none: {error.message}")
        told = Credential(find_common_prefix(scope.locations), storage.hints | _config(keys))
        return AccessGrant(hints=storage.hints, credential=told)

    def _keys(self, scope: FileScope, caller: Caller | None, name: TableName, *, write: bool) -> Keys:
        if scope.storage.vending is Mode.STS:
            return self._session(scope, caller, name, write=write)
        keys = self.static.write if write else self.static.read
        if keys is None:
            verb = "write" if write else "read"
            raise Invalid(f"the server has no keys for those who may {verb}")
        return keys

    def _session(self, scope: FileScope, caller: Caller | None, name: TableName, *, write: bool) -> Keys:
        """Handed out again for half of its life: clients renew five minutes before the end, and so shortly never."""
        storage = scope.storage
        policy = build_session_policy(scope.reach(write=write), partition=storage.partition)
        if len(policy) > LONGEST_POLICY:
            raise Invalid("the table's files lie in too many places for one policy")
        session = build_session_name(None if caller is None else caller.principal.name, str(name))
        principal = None if caller is None else caller.principal.id
        key, now = (storage, policy, session, principal), datetime.now(UTC)
        with self._lock:
            known = self._sessions.get(key)
        if known is not None and now < known.renew_at:
            return known.keys
        keys = self.cloud.assume(storage, session_name=session, policy=policy)
        life = (keys.expires_at or now) - now
        with self._lock:
            self._sessions[key] = _Session(keys, now + max(life / 2, timedelta()))
        return keys


def _build_scope(
    uow: UnitOfWork, links: Links, catalog: CatalogName, relation: Relation | None, metadata: Json
) -> FileScope:
    """Where a table's files lie; a staged table has no relation yet."""
    storage = load_storage(uow, catalog)
    if not storage.hands_out:
        return FileScope(storage=storage)
    own = list_own_locations(metadata)
    locations = own if relation is None else list_locations(relation, metadata)
    places = [S3Place.of(location) for location in locations]
    why_not = _why_outside(load_allowed_locations(uow, links, catalog), links, locations)
    if relation is not None and relation.hive_name is not None:
        why_not = f"its files lie in the directories of the Hive table {relation.hive_name}"
    elif not all(places):
        why_not = "its location is none in S3, or is not written plainly"
    elif why_not is None:
        meeting = uow.dropped.find_overlaps(locations, but_for=[] if relation is None else find_kin(relation))
        if meeting:
            names = sorted({place.used_by for place in meeting})[:5]
            log.warning("a table's files lie among others'", extra={"locations": locations, "others": names})
            why_not = "another table's files lie in or around its own"
    return FileScope(
        storage=storage,
        locations=locations,
        own=tuple(place for place in map(S3Place.of, own) if place is not None),
        all=tuple(place for place in places if place is not None),
        why_not=why_not,
    )


def _why_outside(allowed: AllowedLocations, links: Links, locations: Sequence[str]) -> str | None:
    """Tables that break the rule are older than it, see `firn admin check`."""
    try:
        for location in locations:
            allowed.check_directory(location, links)
    except LocationRefused as error:
        return error.message
    return None


def _config(keys: Keys) -> dict[str, str]:
    told = {"s3.access-key-id": keys.access_key_id, "s3.secret-access-key": keys.secret_access_key}
    if keys.session_token is not None:
        told["s3.session-token"] = keys.session_token
    if keys.expires_at is not None:
        told["s3.session-token-expires-at-ms"] = str(int(keys.expires_at.timestamp() * 1000))
    return told
