"""`firn hive upgrade --unique`, and what `firn table` says of keys, by the command line beside a Hive in memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from firn.protocol.leases import Outcome, Result
from optimizer.client import connect
from tests.command_line import Command
from tests.fingerprints import fingerprint
from tests.server.service.hive.beside_hive import HiveFiles
from tests.server.service.hive.downgraded_tables import appended_change
from tests.server.service.hive.served_site import Site

UNIQUE = {"keys": 0, "surplus_rows": 0, "sample": []}
REPEATED = {
    "keys": 1,
    "surplus_rows": 1,
    "sample": [{"key": {"id": "3"}, "rows": 2, "files": ["file:/a.parquet", "file:/b.parquet"], "more_files": 0}],
}


@contextmanager
def optimizer(url: str, job_result: dict[str, Any], meanwhile: Callable[[], object] = lambda: None) -> Iterator[None]:
    """What an optimizer does with the first job that counts keys; whoever else acts while it does."""
    api = connect(url)
    me = api.register(group="default", host="here", pid=1, version="0", facts={}).id

    def work() -> None:
        lease = api.take_lease(me, ["keys"], wait_seconds=20)
        assert lease is not None
        meanwhile()
        result = {"snapshot_id": str(lease.task["snapshot_id"]), **job_result}
        api.report(lease, Result(outcome=Outcome.NOTHING, result=result), [])

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        thread.join(30)
        api.unregister(me)


def works(site: Site) -> None:
    """Carry out upgrades and downgrades in the background, as a server does."""
    site.works()
    beside = site.beside
    hive = beside.services.hive
    hive.downgrades = beside.downgrades

    def let_go() -> None:
        while not beside.downgrades.activate().finished:
            pass

    hive.poke_downgrades = lambda: threading.Thread(target=let_go).start()


def upgrade(run: Command, table: HiveFiles, *flags: str) -> Any:
    return run("hive", "upgrade", table.name, "--primary-key", "id", "--unique", *flags)


def test_a_table_with_unique_keys_is_upgraded_and_tells_so(site: Site) -> None:
    works(site)
    with optimizer(site.run.url, UNIQUE):
        output = upgrade(site.run, site.orders)
    assert (output.code, "no duplicate keys" in output.err) == (0, True)
    shown = site.run("table", "show", site.orders.name).out
    assert "unique, checked at " in shown
    assert "base has moved" not in shown


def test_a_table_without_unique_keys_is_hives_alone_again(site: Site) -> None:
    works(site)
    before = fingerprint(site.beside.directory / "hive")
    with optimizer(site.run.url, REPEATED):
        output = upgrade(site.run, site.orders)
    assert (output.code, "the Hive table is as before" in output.err) == (1, True)
    assert "id=3" in output.out
    assert "file:/a.parquet, file:/b.parquet" in output.out
    assert site.beside.metadata(site.orders) is None
    assert fingerprint(site.beside.directory / "hive") == before
    assert site.beside.metastore.table("db", site.orders.short).parameters.get("firn.owner") is None
    with optimizer(site.run.url, REPEATED):
        again = upgrade(site.run, site.orders, "--keep")
    assert again.code == 0
    assert "1 duplicate keys (1 duplicate rows)" in site.run("table", "show", site.orders.name).out


def test_changes_that_were_written_meanwhile_keep_the_table_here(site: Site) -> None:
    """Given back, they would be merged and published, which nobody has asked for."""
    works(site)
    with optimizer(site.run.url, REPEATED, lambda: appended_change(site.beside, site.orders)):
        output = upgrade(site.run, site.orders)
    assert (output.code, "stays upgraded" in output.err) == (1, True)
    assert site.beside.metadata(site.orders) is not None


def test_uniqueness_after_an_upgrade_is_asked_of_one_keyed_table(site: Site) -> None:
    refused = site.run("hive", "upgrade", "db.t*", "--primary-key", "id", "--unique")
    assert (refused.code, "give one table and --primary-key" in refused.err) == (2, True)


def test_keys_are_counted_before_the_upgrade(site: Site) -> None:
    site.works()
    name = site.orders.name
    unique = site.run("hive", "check", name, "--primary-key", "id", "--unique")
    assert (unique.code, "all 3 rows were read" in unique.out) == (0, True)
    site.orders.add("y", 1, 3, 3)
    counted = site.run("hive", "check", name, "--primary-key", "id", "--unique")
    assert (counted.code, "3 duplicate rows: 2 keys occur more than once in 6 rows by (id)" in counted.out) == (1, True)
    assert "id=3" in counted.out
    assert "read 6 rows in 3 files" in counted.err
    many = site.run("hive", "upgrade", "db.t*", "--primary-key", "id", "--unique", "--dry-run", "--json")
    assert {row["table"]: row["uniqueness"]["surplus_rows"] for row in many.json} == {name: 3, site.events.name: 0}
    assert site.beside.metadata(site.orders) is None
    for flags in (["check", name, "--unique"], ["upgrade", name, "--unique", "--dry-run"]):
        assert "--unique needs a key" in site.run("hive", *flags).err


def test_a_check_that_finds_repeated_keys_ends_with_1_and_names_them(site: Site) -> None:
    works(site)
    name = site.orders.name
    site.run("hive", "upgrade", name, "--primary-key", "id")
    planned = site.run("table", "check-keys", name, "--dry-run")
    assert "count the keys of 3 rows" in planned.out
    with optimizer(site.run.url, REPEATED):
        output = site.run("table", "check-keys", name)
    assert (output.code, "id=3" in output.out) == (1, True)
    unchosen = site.run("table", "resolve-keys", name)
    assert (unchosen.code, "needs a rule for the row to keep" in unchosen.err) == (2, True)
    with optimizer(site.run.url, UNIQUE):
        assert site.run("table", "resolve-keys", name, "--keep-highest", "v").code == 0
