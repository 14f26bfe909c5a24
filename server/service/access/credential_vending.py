"""Gives clients access to a table's files: credentials for S3, or signatures for single requests.

Reading needs the privilege to read; writing needs the privilege to write or maintain. If the server can give no access,
it still serves the table, and the answer says why. It refuses only a direct request for credentials or a signature.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from catalog.jobs.job import JobKind
from catalog.jobs.leases import Lease, check_lease
from catalog.keyed.image_build import list_image_directories
from catalog.locations.links import Links
from catalog.locations.location_rule import AllowedLocations, list_own_locations
from catalog.names import CatalogName, TableName
from catalog.ports.credentials import Cloud, Keys, ToSign
from catalog.ports.store import Database, UnitOfWork
from catalog.tables.relation import Relation
from server.service.access.access_control import Access
from server.service.locations.location_rule import find_kin, load_allowed_locations, load_storage
from server.service.pipelines.runs import is_input, list_subjects
from server.service.tables.keyed_tables import find_serving_table
from server.service.tables.metadata_files import MetadataFiles

log = logging.getLogger(__name__)

MOST_SESSIONS = 10_000
MAX_SCOPES = 10_000
SCOPE_SECONDS = 10
"""How long the server caches a table's locations: an engine asks for a signature for each of its requests."""


class Mechanism(StrEnum):
    """Mechanisms of access delegation, by their names in the header X-Iceberg-Access-Delegation."""

    CREDENTIALS = "vended-credentials"
    SIGNING = "remote-signing"


class Credential(NamedTuple):
    """The configuration with which a client reaches all files below `prefix`."""

    prefix: str
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessGrant:
    """The storage configuration and the access that a client gets with a table."""

    hints: Mapping[str, str]
    credential: Credential | None = None
    signs: bool = False
    refused: str | None = None
    """Why the client gets no access."""

    @property
    def tag(self) -> tuple[str, ...]:
        """The parts that an entity tag has to distinguish, because other credentials make another answer."""
        config = {} if self.credential is None else self.credential.config
        key, until = config.get("s3.access-key-id", ""), config.get("s3.session-token-expires-at-ms", "")
        hints = (f"{name}={value}" for name, value in sorted(self.hints.items()))
        return ("delegated", key, until, str(self.signs), self.refused or "", *hints)


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticKeys:
    """The keys that `firn.storage.vending=static` hands out."""

    read: Keys | None = None
    write: Keys | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileScope:
    """The locations of a table's files; `why_not` is the reason why no client gets access to them."""

    storage: StorageConfig
    locations: tuple[str, ...] = ()
    own: tuple[S3Place, ...] = ()
    all: tuple[S3Place, ...] = ()
    written: tuple[S3Place, ...] = ()
    """For a keyed table: the change store's directories, which only writers reach, and in which alone they write."""
    beside: tuple[S3Place, ...] = ()
    """For a keyed table: the directories of its other data files, beside which some engines write position deletes."""
    why_not: str | None = None

    def reach(self, *, write: bool) -> Reach:
        """The S3 locations that a client with read access, or with write access, may reach."""
        if write and self.written:
            reach = Reach.to(self.written, (*self.all, *self.written), write=True)
            return replace(reach, position_deletes=self.beside)
        return Reach.to(self.own, self.all, write=write)

    def of_image_builder(self, directory: str) -> FileScope:
        """The scope of a job that builds the keyed table's image: it reads both stores, and writes into one directory.

        Without the change store's directories, or outside of S3, the job gets no access.
        """
        place = S3Place.of(directory)
        if not self.written or place is None:
            return replace(self, why_not=self.why_not or "a directory of the keyed table is not in S3, or not allowed")
        return replace(self, all=(*self.all, *self.written), written=(place,), beside=())


class _Session(NamedTuple):
    keys: Keys
    renew_at: datetime


@dataclass(frozen=True, kw_only=True)
class Vending:
    """Grants access to files; threads may share it."""

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
        mechanisms: Sequence[Mechanism],
        lease: Lease | None = None,
    ) -> AccessGrant:
        """The access to an existing table for a client that asks for these mechanisms.

        A job presents its lease. It gets access only to its own tables, and only while the lease lasts.
        """
        with self.database.reading() as uow:
            storage = load_storage(uow, catalog)
        if not storage.hands_out:  # most clients ask every time
            return AccessGrant(hints=storage.hints)
        scope, pinned = self._find_scope(catalog, name)
        if (why_not := self._why_not_leased(lease, catalog, name)) is not None:
            return AccessGrant(hints=scope.storage.hints, refused=why_not)
        if not self.access.may_read(caller, catalog, name):
            return AccessGrant(hints=scope.storage.hints, refused="it needs the privilege to read the table")
        write = not pinned and self.access.may_write(caller, catalog, name) and not is_input(self.database, lease, name)
        return self._granted(scope, caller, name, mechanisms, write=write)

    def grant_image_builder(self, caller: Caller | None, lease: Lease) -> AccessGrant:
        """The access of a job that builds an image. Raises LeaseLost, and Invalid for a job of another kind.

        It is limited to this table; without it, the optimizer uses its own credentials.
        """
        with self.database.reading() as uow:
            job = check_lease(uow.jobs.get(lease.job_id), lease)
            if job.kind is not JobKind.IMAGE:
                raise Invalid(f"job {job.id} builds no image")
            relation, storage = uow.relations.get(job.relation_id), load_storage(uow, job.catalog)
        if storage.vending is not Mode.STS:
            return AccessGrant(hints=storage.hints)
        if not self.access.may_write(caller, job.catalog, relation.name):
            return AccessGrant(hints=storage.hints, refused="it needs the privilege to maintain the table")
        scope, _ = self._find_scope(job.catalog, relation.name)
        builder = scope.of_image_builder(list_image_directories(relation)[0])
        return self._granted(builder, caller, relation.name, [Mechanism.CREDENTIALS], write=True)

    def grant_staged(
        self,
        caller: Caller | None,
        catalog: CatalogName,
        name: TableName,
        metadata: Json,
        mechanisms: Sequence[Mechanism],
    ) -> AccessGrant:
        """The access to a staged table, whose files the client writes before it creates the table.

        The server signs no requests for it, because a later request does not name the staged table.
        """
        with self.database.reading() as uow:
            scope = _build_scope(uow, self.metadata.files, catalog, None, metadata)
        mechanisms = [mechanism for mechanism in mechanisms if mechanism is not Mechanism.SIGNING]
        return self._granted(scope, caller, name, mechanisms, write=True)

    def _why_not_leased(self, lease: Lease | None, catalog: CatalogName, name: TableName) -> str | None:
        """Why a request with this lease gets no access; None for a request without a lease."""
        if lease is None:
            return None
        with self.database.reading() as uow:
            try:
                job = check_lease(uow.jobs.get(lease.job_id), lease)
            except CatalogError as error:
                return error.message
            table = find_serving_table(uow, catalog, name).relation
            if list_subjects(uow, job).isdisjoint((table.id, table.owner_id)):
                return "the job of the request's lease works on another table"
        return None

    def issue_credential(
        self, caller: Caller | None, catalog: CatalogName, name: TableName, lease: Lease | None = None
    ) -> Credential | None:
        """New credentials for a table; None if the catalog vends none. Raises Forbidden, NoSuchTable."""
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
        """The headers that sign a request to S3; raises Forbidden when the caller may not send the request."""
        scope, pinned = self._find_scope(catalog, name, remembered=True)
        if not scope.storage.signs:
            raise Forbidden(f"catalog {catalog} signs no requests")
        if scope.why_not is not None:
            raise Forbidden(f"no signatures for {name}: {scope.why_not}")
        if (why_not := self._why_not_leased(lease, catalog, name)) is not None:
            raise Forbidden(f"no signatures for {name}: {why_not}")
        if not self.access.may_read(caller, catalog, name):
            raise Forbidden(f"signatures for {name} need the privilege to read it")
        write = not pinned and self.access.may_write(caller, catalog, name) and not is_input(self.database, lease, name)
        signable = check_signable(request, scope.reach(write=write), scope.storage)
        return self.cloud.signature(
            ToSign(
                method=request.method,
                url=request.uri,
                headers=signable.headers,
                payload=signable.payload,
                region=scope.storage.signing_region,
            )
        )

    def _find_scope(self, catalog: CatalogName, name: TableName, *, remembered: bool = False) -> tuple[FileScope, bool]:
        """The scope of a table, cached per metadata file, and whether the name is read only."""
        with self.database.reading() as uow:
            uow.catalogs.get(catalog)
            serving = find_serving_table(uow, catalog, name)
            relation, location = serving.relation, serving.relation.metadata_location or ""
            images = () if serving.keyed is None else tuple(list_image_directories(serving.keyed))
            with self._lock:
                cached = self._scopes.get((relation.id, location, images)) if remembered else None
            if cached is not None:
                return cached, serving.is_read_only
            metadata = self.metadata.load(location).parsed
            scope = _build_scope(uow, self.metadata.files, catalog, relation, metadata, images)
            if serving.change is not None:
                change = self.metadata.load(serving.change.metadata_location or "").parsed
                scope = _add_change(uow, self.metadata.files, catalog, scope, change, images)
        with self._lock:
            self._scopes[relation.id, location, images] = scope
        return scope, serving.is_read_only

    def _granted(
        self, scope: FileScope, caller: Caller | None, name: TableName, mechanisms: Sequence[Mechanism], *, write: bool
    ) -> AccessGrant:
        storage = scope.storage
        vends = Mechanism.CREDENTIALS in mechanisms and storage.vending is not Mode.NONE
        signs = Mechanism.SIGNING in mechanisms and storage.signs and not vends
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
        credential = Credential(find_common_prefix(scope.locations), storage.hints | _build_config(keys))
        return AccessGrant(hints=storage.hints, credential=credential)

    def _keys(self, scope: FileScope, caller: Caller | None, name: TableName, *, write: bool) -> Keys:
        if scope.storage.vending is Mode.STS:
            return self._session(scope, caller, name, write=write)
        keys = self.static.write if write else self.static.read
        if keys is None:
            verb = "write" if write else "read"
            raise Invalid(f"the server has no static keys for principals that may {verb}")
        return keys

    def _session(self, scope: FileScope, caller: Caller | None, name: TableName, *, write: bool) -> Keys:
        """The keys of a session. The server reuses a session for half of its life, because clients renew early."""
        storage = scope.storage
        policy = build_session_policy(scope.reach(write=write), partition=storage.partition)
        if len(policy) > LONGEST_POLICY:
            raise Invalid("the table's files lie in too many locations for one session policy")
        session = build_session_name(None if caller is None else caller.principal.name, str(name))
        principal = None if caller is None else caller.principal.id
        key, now = (storage, policy, session, principal), datetime.now(UTC)
        with self._lock:
            cached = self._sessions.get(key)
        if cached is not None and now < cached.renew_at:
            return cached.keys
        keys = self.cloud.assume(storage, session_name=session, policy=policy)
        life = (keys.expires_at or now) - now
        with self._lock:
            self._sessions[key] = _Session(keys, now + max(life / 2, timedelta()))
        return keys


def _build_scope(
    uow: UnitOfWork,
    links: Links,
    catalog: CatalogName,
    relation: Relation | None,
    metadata: Json,
    images: tuple[str, ...] = (),
) -> FileScope:
    """The scope of a table; a staged table has no relation yet. `images` are the directories of a keyed table's."""
    storage = load_storage(uow, catalog)
    if not storage.hands_out:
        return FileScope(storage=storage)
    own = list_own_locations(metadata)
    locations = own if relation is None else (*list_locations(relation, metadata), *images)
    places = [S3Place.of(location) for location in locations]
    why_not = _explain_outside(load_allowed_locations(uow, links, catalog), links, locations)
    if relation is not None and relation.hive_name is not None:
        why_not = f"its files lie in the directories of the Hive table {relation.hive_name}"
    elif not all(places):
        why_not = "its location is not in S3, or is not a plain URL"
    elif why_not is None:
        overlaps = uow.dropped.find_overlaps(locations, but_for=[] if relation is None else find_kin(relation))
        if overlaps:
            names = sorted({used.used_by for used in overlaps})[:5]
            log.warning("a table shares its locations", extra={"locations": locations, "others": names})
            why_not = "another table's files lie in or around its own"
    return FileScope(
        storage=storage,
        locations=locations,
        own=tuple(place for place in map(S3Place.of, own) if place is not None),
        all=tuple(place for place in places if place is not None),
        why_not=why_not,
    )


def _add_change(
    uow: UnitOfWork, links: Links, catalog: CatalogName, scope: FileScope, change: Json, images: tuple[str, ...]
) -> FileScope:
    """The scope of a keyed table, with the directories into which engines write its new rows and position deletes.

    They are left out when one is not in S3, or outside of the allowed locations: then the table can be read only.
    """
    if not scope.storage.hands_out or scope.why_not is not None:
        return scope
    locations = list_own_locations(change)
    places = [S3Place.of(location) for location in locations]
    if _explain_outside(load_allowed_locations(uow, links, catalog), links, locations) is not None or not all(places):
        return scope
    beside = (*scope.own, *map(S3Place.of, images[:1]))
    return replace(
        scope,
        written=tuple(place for place in places if place is not None),
        beside=tuple(place for place in beside if place is not None),
    )


def _explain_outside(allowed: AllowedLocations, links: Links, locations: Sequence[str]) -> str | None:
    """Why a table breaks the location rule; such tables are older than the rule, see `firn admin check`."""
    try:
        for location in locations:
            allowed.check_directory(location, links)
    except LocationRefused as error:
        return error.message
    return None


def _build_config(keys: Keys) -> dict[str, str]:
    config = {"s3.access-key-id": keys.access_key_id, "s3.secret-access-key": keys.secret_access_key}
    if keys.session_token is not None:
        config["s3.session-token"] = keys.session_token
    if keys.expires_at is not None:
        config["s3.session-token-expires-at-ms"] = str(int(keys.expires_at.timestamp() * 1000))
    return config
