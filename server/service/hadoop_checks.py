"""HDFS clusters under the catalogs: their state for people, and a check that names the hop that fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from catalog.errors import Unavailable
from catalog.names import CatalogName
from catalog.ports.hadoop import FileSystems, FileSystemStatus, Finding, Hop, Severity
from catalog.ports.store import Database
from catalog.ports.tickets import Tickets, TicketStatus
from catalog.removal.ownership import quarantine_location
from catalog.tables.relation import RelationKind

KEEP_SECONDS = 30.0
_KINDS = (RelationKind.TABLE, RelationKind.BASE)
_PAGE = 1_000
_MOST_TABLES = 100_000
_MOST_CLOCK_SECONDS = 300
"""Services refuse a ticket if its clock and theirs differ by more, unless they are set up otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus:
    """A file system, the catalogs whose warehouses it holds, and the server's ticket."""

    address: str
    name_nodes: tuple[str, ...]
    catalogs: tuple[str, ...]
    user: str
    error: str | None
    checked_at: datetime
    ticket_expires_at: datetime | None
    ticket_error: str | None
    has_ticket: bool
    """Whether the server has a principal of its own."""


class ClusterDown(Unavailable):
    """A cluster does not answer, or the server has no ticket; the message says which and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClustersSummary:
    """Counts of one round of the background task."""

    clusters: int = 0


@dataclass
class _Cache:
    statuses: Sequence[ClusterStatus] = ()
    until: float = float("-inf")
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True)
class HadoopChecks:
    """Asks clusters. Safe to share between threads; none is asked more often than twice a minute."""

    database: Database
    file_systems: FileSystems
    tickets: Tickets | None
    clock: Callable[[], float] = time.monotonic
    cache: _Cache = field(default_factory=_Cache)

    def show(self) -> Sequence[ClusterStatus]:
        """The state of each cluster that holds a warehouse, at most 30 s old."""
        with self.cache.lock:
            if self.clock() >= self.cache.until:
                self.cache.statuses = [*self._ask()]
                self.cache.until = self.clock() + KEEP_SECONDS
            return self.cache.statuses

    def activate(self) -> ClustersSummary:
        """Raise ClusterDown if a cluster does not answer."""
        statuses = self.show()
        down = [f"{status.address} does not answer: {status.error}" for status in statuses if status.error is not None]
        if down:
            raise ClusterDown("; ".join(down))
        return ClustersSummary(clusters=len(statuses))

    def check(self) -> list[Finding]:
        """Check every hop to every warehouse on HDFS, and write files there; empty if none is."""
        warehouses = self._list_warehouses()
        if not warehouses:
            return []
        findings = [] if self.tickets is None else [_check_ticket(self.tickets)]
        for warehouse in dict.fromkeys(warehouses.values()):
            findings += self.file_systems.examine(warehouse)
        for catalog, warehouse in warehouses.items():
            findings += self._find_unmovable(catalog, warehouse)
        return findings

    def _list_warehouses(self) -> dict[CatalogName, str]:
        with self.database.reading() as uow:
            warehouses = {catalog.name: catalog.warehouse for catalog in uow.catalogs.list()}
        on_hdfs = {*self.file_systems.select([*warehouses.values()])}
        return {name: warehouse for name, warehouse in warehouses.items() if warehouse in on_hdfs}

    def _ask(self) -> Iterator[ClusterStatus]:
        warehouses = self._list_warehouses()
        first: dict[str, str] = {}
        for warehouse in warehouses.values():
            first.setdefault(self.file_systems.get_address(warehouse), warehouse)
        pings = {address: self.file_systems.ping(warehouse) for address, warehouse in first.items()}
        # Afterwards, because the first call to a cluster gets a ticket.
        ticket = None if self.tickets is None else self.tickets.status()
        with self.database.reading() as uow:
            now = uow.now()
        for address, status in pings.items():
            catalogs = [name for name, at in warehouses.items() if self.file_systems.get_address(at) == address]
            yield _join(status, catalogs, ticket, now)

    def _find_unmovable(self, catalog: CatalogName, warehouse: str) -> Iterator[Finding]:
        """Tables whose files cannot be renamed into the quarantine."""
        quarantine = quarantine_location(warehouse)
        locations = [*self._list_locations(catalog)]
        apart = [
            location
            for location in self.file_systems.select(locations)
            if not self.file_systems.can_rename(location, quarantine)
        ]
        if apart:
            yield Finding(
                hop=Hop.MOUNT_POINT,
                severity=Severity.WARNING,
                location=quarantine,
                message=f"{len(apart)} tables of {catalog}, such as {apart[0]}, lie in another name service or mount "
                "point than the warehouse: orphan removal refuses to move their files",
                hint="mount the warehouse and these directories together, or move the tables into the warehouse",
            )

    def _list_locations(self, catalog: CatalogName) -> Iterator[str]:
        cursor, count = None, 0
        while count < _MOST_TABLES:
            with self.database.reading() as uow:
                page = uow.relations.list(catalog, None, _KINDS, limit=_PAGE, cursor=cursor)
            for relation in page.items:
                if relation.metadata_location is not None:
                    yield relation.metadata_location.rpartition("/")[0].rpartition("/")[0]
            count, cursor = count + len(page.items), page.next_cursor
            if cursor is None:
                return


def _join(
    status: FileSystemStatus, catalogs: Sequence[CatalogName], ticket: TicketStatus | None, now: datetime
) -> ClusterStatus:
    return ClusterStatus(
        address=status.address,
        name_nodes=status.name_nodes,
        catalogs=tuple(sorted(map(str, catalogs))),
        user=status.user if ticket is None else ticket.principal,
        error=status.error,
        checked_at=now,
        has_ticket=ticket is not None,
        ticket_expires_at=None if ticket is None else ticket.expires_at,
        ticket_error=None if ticket is None else ticket.error,
    )


def _check_ticket(tickets: Tickets) -> Finding:
    status, trial = tickets.status(), tickets.try_keytab()
    if trial.refusal is not None:
        return Finding(
            hop=Hop.KERBEROS,
            severity=Severity.FAILED if status.expires_at is None else Severity.WARNING,
            location=status.principal,
            message=f"the KDC gives no ticket: {trial.refusal}",
            hint="see the table of messages about Kerberos in docs/clusters.md",
        )
    if abs(trial.clock_offset_seconds) >= _MOST_CLOCK_SECONDS:
        return _warn_of_clock(status.principal, trial.clock_offset_seconds)
    at = status.expires_at
    message = "the KDC gives a ticket" if at is None else f"the ticket is valid until {at:%Y-%m-%d %H:%M} UTC"
    return Finding(hop=Hop.KERBEROS, severity=Severity.OK, location=status.principal, message=message)


def _warn_of_clock(principal: str, seconds: int) -> Finding:
    """The library corrects for the difference. Whether a service does depends on which clock is wrong."""
    where = "ahead of" if seconds > 0 else "behind"
    return Finding(
        hop=Hop.KERBEROS,
        severity=Severity.WARNING,
        location=principal,
        message=f"the KDC's clock is {abs(seconds) // 60} min {where} this machine's; name nodes and metastores refuse "
        "a ticket if their clocks differ from the KDC's by more than five minutes",
        hint="correct the clocks of the KDC, of this machine, and of the cluster",
    )
