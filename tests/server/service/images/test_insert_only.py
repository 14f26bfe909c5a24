"""Insert-only tables on a server in this process: images, layers and adoptions agree with a plain dict.

See docs/protocols.md, rule 1.9.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

import pytest

from catalog.errors import CommitRefused, Invalid
from catalog.keyed.spec import KeySpec
from optimizer.client import connect
from tests.databases import ON_SQLITE
from tests.factories import LAKE
from tests.server.lake import BASE, CHANGE, ORDERS, Lake, altered, definition, set_property
from tests.server.listening import listening
from tests.server.service.images.keyed_lake import KeyedLake
from tests.server.service.images.statements import Checkpoint, plan_checkpoint, plan_removal, plan_statement
from tests.server.service.images.test_adoption import lease_merge, run

pytestmark = ON_SQLITE
INSERT_ONLY = {"firn.insert-only": "true"}
STEPS = 14


def create(lake: Lake, **properties: str) -> KeyedLake:
    lake.create_keyed(ORDERS, **INSERT_ONLY, **{"firn.read.max-wait": "60 s"}, **properties)
    return KeyedLake(lake)


@pytest.fixture
def orders(lake: Lake) -> Iterator[KeyedLake]:
    yield create(lake)
    lake.services.images.stop()
    lake.services.image_writes.stop()


@dataclass
class Model:
    """The first row of each key."""

    rows: dict[int, str | None] = field(default_factory=dict)

    def insert(self, rows: Sequence[tuple[int, str | None]]) -> None:
        for key, note in rows:
            self.rows.setdefault(key, note)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("version", ["2", "3"])
def test_the_first_row_of_a_key_wins_through_images_layers_and_merges(lake: Lake, version: str, seed: int) -> None:
    """Changes that say `U` insert, too, and those that say `D` do nothing."""
    orders, model, random = create(lake, **{"format-version": version}), Model(), Random(seed)

    def make_rows(count: int) -> list[tuple[int, str]]:
        return [(random.randrange(12), f"{random.random():.6f}") for _ in range(count)]

    def change() -> None:
        rows, op = make_rows(random.randint(1, 4)), random.choice("IU")
        orders._append(CHANGE, [{"id": key, "note": note, "_op": op} for key, note in rows])
        model.insert(rows)

    def insert() -> None:
        rows = list(dict(make_rows(2)).items())
        orders.append(*rows)
        model.insert(rows)

    with listening(lake.client.app) as url:
        api = connect(url)

        def merge() -> None:
            if lake.keyed().pending_rows:
                lease = lease_merge(orders, api, random.choice(["auto", "adopt"]))
                api.report(lease, run(api, lease), [])

        acts = [change, insert, lambda: orders.delete(random.randrange(12)), merge]
        for _ in range(STEPS):
            random.choices(acts, [5, 2, 1, 3])[0]()
            if random.random() < 0.7:
                assert orders.read() == model.rows
        merge()
    assert orders.read() == model.rows
    lake.services.images.stop()
    lake.services.image_writes.stop()


def test_statements_that_change_or_delete_rows_are_refused_and_leave_nothing(orders: KeyedLake) -> None:
    orders.append((1, "first"), (2, "b"))
    for request in (
        plan_statement(orders, deleted=[1]),
        plan_statement(orders, deleted=[1], upserted=[(1, "second")]),
        plan_removal(orders, holding=[1]),
    ):
        with pytest.raises(Invalid, match="insert-only: statements on it cannot change or delete rows") as refused:
            orders.send(request)
        assert "firn table merge db.orders" in (refused.value.hint or "")
    with pytest.raises(Invalid, match="insert-only, and the stream replaces or deletes rows") as refused:
        orders.send(plan_checkpoint(orders, Checkpoint(rows=[(1, "second")], deleted=[1])))
    assert "write.upsert.enabled" in (refused.value.hint or "")
    assert orders.read() == {1: "first", 2: "b"}
    orders.append((1, "second"), (3, "c"))
    assert orders.read() == {1: "first", 2: "b", 3: "c"}


def test_it_is_fixed_at_creation(lake: Lake) -> None:
    create(lake)
    assert lake.keyed().spec.is_insert_only
    for update in (
        set_property("firn.insert-only", "false"),
        {"action": "remove-properties", "removals": ["firn.insert-only"]},
    ):
        with pytest.raises(CommitRefused, match="fixed when it is created"):
            lake.commit(altered(BASE, update))
    with pytest.raises(CommitRefused, match="exclude each other"):
        lake.commit(altered(BASE, set_property("firn.partial", "true")))


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"firn.sequence-field": "note"}, "exclude each other: the first row of a key wins"),
        ({"firn.partial": "true"}, "exclude each other: a table that takes inserts only never changes a column"),
        ({"firn.column.note.rule": "first"}, "needs firn.partial"),
    ],
)
def test_what_makes_no_sense_is_refused_at_creation(lake: Lake, properties: dict[str, str], reason: str) -> None:
    with pytest.raises((Invalid, CommitRefused), match=reason):
        create(lake, **properties)


def test_the_property_is_true_or_false_and_needs_a_new_table(lake: Lake) -> None:
    with pytest.raises(Invalid, match="expected true or false"):
        lake.create_keyed(ORDERS, **{"firn.insert-only": "yes"})
    with pytest.raises(Invalid, match="set when a keyed table is created"):  # as conversions create tables
        lake.services.keyed.create(LAKE, definition(ORDERS, **INSERT_ONLY), KeySpec(primary_key=("id",)))
