"""Tables whose reads hide old rows: images, layers and merges agree with a plain dict, whatever the cutoff does.

See docs/protocols.md, rule 5.14.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import partial
from random import Random
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from catalog.iceberg.json import Json
from catalog.iceberg.reading import current_snapshot
from optimizer.client import connect
from tests.databases import ON_SQLITE
from tests.factories import LAKE
from tests.server.lake import BASE, CHANGE, COLUMNS, ORDERS, Lake, altered, set_property
from tests.server.listening import listening
from tests.server.service.images.keyed_lake import KeyedLake
from tests.server.service.images.test_adoption import lease_merge, run
from tests.server.service.images.test_partial import append, create

pytestmark = ON_SQLITE
AT_READ = {"firn.ttl.at-read": "true", "firn.ttl.field": "day", "firn.read.max-wait": "60 s"}
DATED: Json = {**COLUMNS, "fields": [*COLUMNS["fields"], {"id": 3, "name": "day", "type": "date", "required": False}]}
KINDS: dict[str, dict[str, str]] = {
    "plain": {},
    "sequence": {"firn.sequence-field": "day"},
    "insert-only": {"firn.insert-only": "true"},
    "partial": {"firn.partial": "true"},
}
OLDEST, STEPS = 9, 22
Row = tuple[Any, Any]
"""Note and day."""


@dataclass
class World:
    """A table and its rows, old ones included."""

    orders: KeyedLake
    kind: str
    random: Random
    age: int = 5
    rows: dict[int, Row] = field(default_factory=dict)
    highest: dict[int, date] = field(default_factory=dict)

    @property
    def lake(self) -> Lake:
        return self.orders.lake

    def make_day(self) -> date | None:
        if self.kind != "sequence" and self.random.random() < 0.1:
            return None
        return datetime.now(UTC).date() - timedelta(days=self.random.randrange(OLDEST))

    def change(self) -> None:
        """One commit of upserts or deletes; a key may come several times."""
        lines = []
        for _ in range(self.random.randint(1, 4)):
            op, set_ids = self.random.choice("UUUUD"), self.random.choice([None, "2", "3"])
            key, note, day = self.random.randrange(9), self.random.choice("abc"), self.make_day()
            line = {"id": key, "note": note, "day": day, "_op": op}
            lines.append({**line, "_set": set_ids} if self.kind == "partial" else line)
            self._apply(op, key, (note, day), set_ids if self.kind == "partial" else None)
        append(self.orders, CHANGE, lines)

    def _apply(self, op: str, key: int, row: Row, set_ids: str | None) -> None:
        if self.kind == "insert-only" and (op == "D" or key in self.rows):
            return
        if self.kind == "sequence":
            if row[1] < self.highest.get(key, row[1]):
                return
            self.highest[key] = row[1]
        old = self.rows.pop(key, (None, None))
        if op != "D":
            self.rows[key] = (row[0] if set_ids != "3" else old[0], row[1] if set_ids != "2" else old[1])

    def insert(self) -> None:
        """Append a file of new keys to base, some of them old."""
        keys = range(100 + len(self.rows), 100 + len(self.rows) + self.random.randint(1, 3))
        rows = {key: ("base", self.make_day()) for key in keys if key not in self.rows}
        append(self.orders, BASE, [{"id": key, "note": note, "day": day} for key, (note, day) in rows.items()])
        self.rows |= rows
        self.highest |= {key: day for key, (_, day) in rows.items() if self.kind == "sequence" and day is not None}

    def set_age(self) -> None:
        """Move the cutoff, in the policy of the namespace, so that base's metadata stays as it is."""
        self.age = self.random.randrange(1, OLDEST)
        with self.lake.services.database.writing() as uow:
            uow.policies.put(LAKE, ("db",), {"firn.ttl.max-age": f"{self.age} d"})

    def merge(self, api: Any) -> None:
        if self.lake.keyed().pending_rows:
            lease = lease_merge(self.orders, api, self.random.choice(["auto", "adopt"]))
            api.report(lease, run(api, lease), [])

    def check(self) -> None:
        cutoff = datetime.now(UTC).date() - timedelta(days=self.age)
        assert read(self.orders) == {key: row for key, row in self.rows.items() if row[1] is None or row[1] >= cutoff}


def read(orders: KeyedLake) -> dict[int, Row]:
    location = orders.load().metadata_location
    assert location is not None
    rows = StaticTable.from_metadata(location).scan().to_arrow().to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: (row["note"], row["day"]) for row in rows}


@pytest.fixture(autouse=True)
def ending(lake: Lake) -> Iterator[None]:
    yield
    lake.services.images.stop()


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("version", ["2", "3"])
@pytest.mark.parametrize("kind", KINDS)
def test_reads_show_the_merged_rows_that_are_young_enough(lake: Lake, kind: str, version: str, seed: int) -> None:
    create(lake, {**AT_READ, **KINDS[kind], "format-version": version}, schema=DATED)
    world = World(KeyedLake(lake), kind, Random(seed))
    world.set_age()
    with listening(lake.client.app) as url:
        api = connect(url)
        acts: list[Callable[[], None]] = [world.change, world.insert, world.set_age, partial(world.merge, api)]
        for _ in range(STEPS):
            world.random.choices(acts, [5, 2, 2, 2])[0]()
            if world.random.random() < 0.7:
                world.check()
        world.merge(api)
    world.check()


def days_ago(count: int) -> date:
    return datetime.now(UTC).date() - timedelta(days=count)


def test_files_of_old_rows_are_left_out_whole_and_the_snapshot_says_so(lake: Lake) -> None:
    create(lake, {**AT_READ, "firn.ttl.max-age": "5 d"}, schema=DATED)
    orders = KeyedLake(lake)
    append(orders, BASE, [{"id": number, "note": "old", "day": days_ago(9)} for number in range(3)])
    append(orders, BASE, [{"id": 3, "note": "old", "day": days_ago(9)}, {"id": 4, "note": "young", "day": days_ago(1)}])
    assert read(orders) == {4: ("young", days_ago(1))}
    snapshot = current_snapshot(orders.served())
    assert snapshot is not None
    summary = {name: snapshot["summary"][name] for name in ("total-data-files", "total-records", "firn.image.hides")}
    assert summary == {"total-data-files": "1", "total-records": "2", "firn.image.hides": f"day < {days_ago(5)}"}


@pytest.mark.parametrize("properties", [{"firn.ttl.max-age": "5 d", "firn.ttl.field": "note"}, {}])
def test_a_policy_that_does_not_fit_hides_nothing(lake: Lake, properties: dict[str, str]) -> None:
    create(lake, {**AT_READ, **properties}, schema=DATED)
    orders = KeyedLake(lake)
    append(orders, BASE, [{"id": 1, "note": "old", "day": days_ago(9)}])
    assert read(orders) == {1: ("old", days_ago(9))}
    lake.commit(altered(BASE, set_property("firn.ttl.field", "day"), set_property("firn.ttl.max-age", "5 d")))
    assert read(orders) == {}


def test_the_view_hides_what_the_image_hides(lake: Lake) -> None:
    create(lake, {**AT_READ, "firn.ttl.max-age": "5 d"}, schema=DATED)
    _, view = lake.services.keyed.view(LAKE, ORDERS)
    condition = f"(m.`day` IS NOT NULL AND m.`day` < DATE '{days_ago(5)}')"
    assert view["versions"][0]["representations"][0]["sql"] == (
        f"SELECT `id`, `note`, `day` FROM (SELECT `id`, `note`, `day` FROM `base_at_none_0`) AS m WHERE NOT {condition}"
    )
