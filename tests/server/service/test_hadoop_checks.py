"""The state of HDFS clusters under catalogs, and the check of all of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from catalog.names import CatalogName
from catalog.ports.hadoop import FileSystemStatus, Finding, Hop, Severity
from catalog.ports.store import Database
from catalog.ports.tickets import KeytabTrial, TicketStatus
from server.service.hadoop_checks import ClusterDown, HadoopChecks
from tests.factories import a_catalog

OK = Finding(hop=Hop.PERMISSION, severity=Severity.OK, location="hdfs://a/w", message="fine")
UNTIL = datetime(2199, 1, 1, tzinfo=UTC)


@dataclass
class Clusters:
    """File systems by address; each has an error or none."""

    errors: dict[str, str | None]
    checked_locations: list[str] = field(default_factory=list)

    def select(self, locations: Collection[str]) -> list[str]:
        return [location for location in locations if location.startswith("hdfs:")]

    def get_address(self, location: str) -> str:
        return "/".join(location.split("/")[:3])

    def ping(self, location: str) -> FileSystemStatus:
        self.checked_locations.append(location)
        address = self.get_address(location)
        return FileSystemStatus(address=address, name_nodes=("n:1",), user="firn", error=self.errors[address])

    def examine(self, location: str) -> Iterator[Finding]:
        self.checked_locations.append(location)
        yield OK

    def can_rename(self, location: str, directory: str) -> bool:
        return self.get_address(location) == self.get_address(directory)


@dataclass
class Ticket:
    expires_at: datetime | None = UNTIL
    refusal: str | None = None
    clock_offset_seconds: int = 0

    def status(self) -> TicketStatus:
        return TicketStatus(principal="firn@R", expires_at=self.expires_at, error=self.refusal)

    def try_keytab(self) -> KeytabTrial:
        return KeytabTrial(refusal=self.refusal, clock_offset_seconds=self.clock_offset_seconds)

    def activate(self) -> TicketStatus:
        return self.status()


def build(database: Database, clusters: Clusters, ticket: Ticket | None = None, **warehouses: str) -> HadoopChecks:
    with database.writing() as uow:
        for name, warehouse in warehouses.items():
            uow.catalogs.add(a_catalog(name=CatalogName(name), warehouse=warehouse))
    times = iter(range(0, 1000, 12))
    return HadoopChecks(database, clusters, ticket, clock=lambda: float(next(times)))


def test_clusters_are_shown_with_their_catalogs_and_asked_twice_a_minute(database: Database) -> None:
    clusters = Clusters({"hdfs://a": None, "hdfs://b": "Connection refused"})
    checks = build(database, clusters, x="hdfs://a/x", y="hdfs://b/y", z="hdfs://a/z", local="file:///w")
    shown = [(status.address, status.catalogs, status.error) for status in checks.show()]
    assert shown == [("hdfs://a", ("x", "z"), None), ("hdfs://b", ("y",), "Connection refused")]
    assert len(clusters.checked_locations) == 2
    checks.show()
    checks.show()
    assert len(clusters.checked_locations) == 2
    with pytest.raises(ClusterDown, match="hdfs://b does not answer: Connection refused"):
        checks.activate()
    assert len(clusters.checked_locations) == 4


def test_a_ticket_belongs_to_the_state(database: Database) -> None:
    checks = build(database, Clusters({"hdfs://a": None}), Ticket(None, "no KDC"), x="hdfs://a/x")
    [status] = checks.show()
    assert (status.user, status.ticket_expires_at, status.ticket_error) == ("firn@R", None, "no KDC")
    assert checks.activate().clusters == 1


def test_the_check_examines_each_warehouse_once_after_the_ticket(database: Database) -> None:
    clusters, ticket = Clusters({"hdfs://a": None}), Ticket()
    checks = build(database, clusters, ticket, x="hdfs://a/x", same="hdfs://a/x", local="file:///w")
    assert [finding.hop for finding in checks.check()] == [Hop.KERBEROS, Hop.PERMISSION]
    ticket.refusal = "no KDC"
    assert checks.check()[0].severity is Severity.WARNING
    ticket.expires_at = None
    [first, *_] = checks.check()
    assert (first.severity, first.message) == (Severity.FAILED, "the KDC gives no ticket: no KDC")


@pytest.mark.parametrize(("seconds", "words"), [(901, "15 min ahead of this"), (-300, "5 min behind this machine's")])
def test_a_clock_of_the_kdc_that_differs_is_a_warning(database: Database, seconds: int, words: str) -> None:
    ticket = Ticket(clock_offset_seconds=299)
    checks = build(database, Clusters({"hdfs://a": None}), ticket, x="hdfs://a/x")
    assert checks.check()[0].severity is Severity.OK
    ticket.clock_offset_seconds = seconds
    [first, *_] = checks.check()
    assert (first.hop, first.severity) == (Hop.KERBEROS, Severity.WARNING)
    assert words in first.message
    assert "correct the clocks" in str(first.hint)


def test_without_hdfs_there_is_nothing_to_check(database: Database) -> None:
    checks = build(database, Clusters({}), Ticket(), local="file:///w")
    assert checks.check() == []
    assert checks.activate().clusters == 0
