"""`client.scan` reads a keyed table's image from a server, and says in its own words when there is none."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import pytest

import firn
from catalog.errors import Unavailable as Busier
from catalog.names import CatalogName, TableName
from firn.errors import NotFound, Unauthenticated, Unavailable, Unreachable
from firn.transport import TRIES
from server.app import create_app
from server.background.registry import build_background
from server.container import build_services
from server.service.images.images import Images
from server.service.services import Services
from server.service.tables.tables import Loaded
from server.settings import AccessSettings, Settings
from tests.databases import ON_SQLITE
from tests.server.default_settings import settings_in
from tests.server.lake import BASE, altered, set_property
from tests.server.listening import listening
from tests.server.service.images.keyed_lake import KeyedLake

pytestmark = ON_SQLITE


@contextmanager
def connected(orders: KeyedLake, **parts: object) -> Iterator[firn.Client]:
    """A client of a server over the table's services, some of which may be others."""
    configured = settings_in(orders.lake.warehouse.parent / "data")
    services: Services = replace(orders.lake.services, **parts)  # type: ignore[arg-type]
    app = create_app(configured, services, build_background(configured, services))
    with listening(app) as url, firn.connect(url) as client:
        yield client


def rows(client: firn.Client, **scan: object) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = client.scan("db.orders", **scan).to_arrow().to_pylist()  # type: ignore[arg-type]
    return sorted(rows, key=repr)


@pytest.mark.parametrize("version", ["2", "3"])
def test_a_scan_shows_every_commit_filtered_and_projected(orders: KeyedLake, version: str) -> None:
    orders.lake.commit(altered(BASE, set_property("firn.read.format-version", version)))
    expected: dict[int, str | None] = {}
    with connected(orders) as client:
        assert rows(client) == []
        for note in ("a", None, "b"):
            orders.insert((len(expected) + 10, "base"))
            expected[len(expected) + 10] = "base"
            orders.upsert((1, note), (2, "same"), *((key, "new") for key in list(expected)[:1]))
            expected |= {1: note, 2: "same", next(iter(expected)): "new"}
            orders.delete(2)
            del expected[2]
            assert rows(client) == sorted(({"id": k, "note": v} for k, v in expected.items()), key=repr)
            assert rows(client, filter="note = 'base'", columns=["id"]) == sorted(
                ({"id": k} for k, v in expected.items() if v == "base"), key=repr
            )
            assert rows(client, filter="id = 1 and note is null") == ([{"id": 1, "note": None}] if note is None else [])


def test_the_files_are_those_of_both_stores(orders: KeyedLake) -> None:
    orders.insert((1, "a"))
    orders.upsert((1, "b"))
    orders.lake.create()
    with connected(orders) as client:
        assert [(file["store"], file["records"]) for file in client.files("db.orders")] == [("base", 1), ("change", 1)]
        assert client.files("db.plain") == []
        with pytest.raises(NotFound, match=r"db\.none"):
            client.files("db.none")


def test_a_scan_says_why_the_server_merges_nothing(orders: KeyedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firn.transport.FIRST_PAUSE_SECONDS", 0.0)
    orders.upsert((1, "a"))
    real = orders.lake.services.images
    full = replace(real, builder=replace(real.builder, most_pending_bytes=1))
    with connected(orders, images=full) as client, pytest.raises(Unavailable) as refused:
        client.scan("db.orders").to_arrow()
    assert "bytes of changes are pending in db.orders" in refused.value.message
    assert "firn table merge db.orders" in refused.value.message


def test_a_scan_of_an_older_state_warns(orders: KeyedLake, caplog: pytest.LogCaptureFixture) -> None:
    orders.upsert((1, "a"))
    real = orders.lake.services.images
    full = replace(real, builder=replace(real.builder, most_pending_bytes=1))
    with caplog.at_level(logging.WARNING, "firn"), connected(orders) as client:
        assert rows(client) == [{"id": 1, "note": "a"}]
        assert caplog.messages == []
    orders.upsert((1, "b"))
    with caplog.at_level(logging.WARNING, "firn"), connected(orders, images=full) as client:
        assert rows(client) == [{"id": 1, "note": "a"}]
    (warning,) = caplog.messages
    assert "db.orders shows an older state" in warning


@dataclass
class Late:
    """Images that show the first readers an older state."""

    real: Images
    older: Images
    loads: int = 0

    def __getattr__(self, name: str) -> object:
        return getattr(self.real, name)

    def load(self, catalog: CatalogName, name: TableName) -> Loaded:
        self.loads += 1
        return (self.older if self.loads < TRIES else self.real).load(catalog, name)


def test_a_scan_waits_for_the_newest_state(orders: KeyedLake, caplog: pytest.LogCaptureFixture) -> None:
    orders.upsert((1, "a"))
    orders.load()
    orders.upsert((1, "b"))
    real = orders.lake.services.images
    late = Late(real, replace(real, builder=replace(real.builder, most_pending_bytes=1)))
    with caplog.at_level(logging.WARNING, "firn"), connected(orders, images=late) as client:
        assert rows(client) == [{"id": 1, "note": "b"}]
    assert (late.loads, caplog.messages) == (TRIES, [])


@dataclass
class Busy:
    """Images that take too long for the first readers."""

    real: Images
    refusals: int

    def __getattr__(self, name: str) -> object:
        return getattr(self.real, name)

    def load(self, catalog: CatalogName, name: TableName) -> Loaded:
        self.refusals -= 1
        if self.refusals >= 0:
            raise Busier("merging takes longer than firn.read.max-wait")
        return self.real.load(catalog, name)


def test_a_scan_asks_again_while_the_server_builds(orders: KeyedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firn.transport.FIRST_PAUSE_SECONDS", 0.0)
    orders.upsert((1, "a"))
    with connected(orders, images=Busy(orders.lake.services.images, TRIES - 1)) as client:
        assert rows(client) == [{"id": 1, "note": "a"}]
    busy = Busy(orders.lake.services.images, TRIES)
    with (
        connected(orders, images=busy) as client,
        pytest.raises(Unavailable, match="longer than firn"),
    ):
        rows(client)
    assert busy.refusals == 0


def test_errors_of_the_catalog_are_those_of_the_client(orders: KeyedLake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("firn.transport.FIRST_PAUSE_SECONDS", 0.0)
    with connected(orders) as client:
        with pytest.raises(NotFound, match=r"db\.none") as missing:
            client.scan("lake.db.none").to_arrow()
        assert "firn table list" in (missing.value.hint or "")
    with firn.connect("http://127.0.0.1:9") as client, pytest.raises(Unreachable, match="no Firn server"):
        client.scan("db.orders").to_arrow()
    configured = Settings(data_dir=orders.lake.warehouse.parent / "data", access=AccessSettings(enabled=True))
    services = build_services(configured, orders.lake.database.real)
    app = create_app(configured, services, build_background(configured, services))
    with listening(app) as url, firn.connect(url, token="firn_no") as client, pytest.raises(Unauthenticated) as refused:
        client.scan("db.orders").to_arrow()
    assert "FIRN_TOKEN" in (refused.value.hint or "")
