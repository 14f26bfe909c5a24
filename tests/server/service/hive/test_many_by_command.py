"""Many Hive tables by the command line, against a server in this process beside a Hive in memory."""

from __future__ import annotations

import json
from pathlib import Path

from catalog.keyed.spec import KeySpec
from firn.client import connect
from tests.factories import LAKE
from tests.fingerprints import fingerprint
from tests.server.service.hive.altered_columns import hive_has
from tests.server.service.hive.beside_hive import BesideHive
from tests.server.service.hive.published_tables import leased, merged
from tests.server.service.hive.served_site import Site


def test_a_dry_run_of_a_database_is_a_report(site: Site) -> None:
    site.works()
    output = site.run("hive", "upgrade", "db.*", "--dry-run", "--json")
    assert output.code == 1, "one table is blocked"
    rows_by_table = {row["table"]: row for row in output.json}
    assert {name: row["eligible"] for name, row in rows_by_table.items()} == {
        site.orders.name: True,
        site.events.name: True,
        "db.raw": False,
    }
    assert rows_by_table[site.orders.name]["files"] == 2
    people = site.run("hive", "upgrade", "db.*", "--dry-run")
    assert "format: " in people.out
    assert "2 eligible" in people.err
    assert site.beside.written() == set()


def test_a_database_is_upgraded_with_keys_of_their_own(site: Site) -> None:
    site.works()
    before = fingerprint(site.beside.directory / "hive")
    keyed = f"{site.orders.name}=id"
    output = site.run("hive", "upgrade", "db.*", "--primary-key", keyed, "--json")
    assert output.code == 1, "one table is blocked"
    assert {row["target"]: row["outcome"] for row in output.json} == {
        site.orders.name: "upgraded",
        site.events.name: "upgraded",
        "db.raw": "blocked",
    }
    listed = site.run("hive", "list", "--json").json
    assert {relation["name"]: relation["state"] for relation in listed if relation["name"] != "raw"} == {
        site.orders.short: "upgraded",
        site.events.short: "upgraded",
    }
    kinds = {relation["name"]: relation["kind"] for relation in site.run("table", "list", "--json").json}
    assert kinds == {site.orders.short: "keyed", site.events.short: "plain"}
    again = site.run("hive", "upgrade", "db.t*")
    assert (again.code, "skipped" in again.err) == (0, True)
    assert fingerprint(site.beside.directory / "hive") == before


def test_the_suggested_keys_of_a_check_are_the_keys_of_the_upgrade(site: Site, tmp_path: Path) -> None:
    site.works()
    file = tmp_path / "keys.csv"
    site.beside.metastore.declare_primary_key("db", site.events.short, ["v", "id"])
    checked = site.run("hive", "upgrade", "db.*", "--dry-run", "--suggest-keys", str(file))
    assert checked.code == 0, checked.err
    assert "likely keys of 2 tables" in checked.err
    keys = {site.orders.name: "id", site.events.name: '"v,id"'}
    lines = [f"{table},{key}," for table, key in sorted(keys.items())]
    assert file.read_text() == "\n".join(["table,primary_key,sequence_field", *lines, ""])
    again = site.run("hive", "upgrade", "db.*", "--dry-run", "--suggest-keys", str(file))
    assert (again.code, "exists already" in again.err) == (2, True), "somebody may have corrected it"
    assert site.run("hive", "upgrade", "db.t*", "--suggest-keys", str(tmp_path / "b.csv")).code == 2
    assert site.run("hive", "upgrade", "db.t*", "--keys", str(file)).code == 0
    kinds = {relation["name"]: relation["kind"] for relation in site.run("table", "list", "--json").json}
    assert kinds == {site.orders.short: "keyed", site.events.short: "keyed"}


def test_an_upgrade_sets_properties(site: Site) -> None:
    """Some are fixed with the table, such as the topic of its log."""
    site.works()
    upgrade = ("hive", "upgrade", site.orders.name, "--primary-key", "id", "--property")
    malformed = site.run(*upgrade, "firn.log.topic")
    assert (malformed.code, "KEY=VALUE" in malformed.err) == (2, True)
    topic = ("firn.log.topic=orders", "--property", "firn.log.brokers=127.0.0.1:9092", "--property")
    refused = site.run(*upgrade, *topic, "firn.log.format=nonsense")
    assert (refused.code != 0, "firn.log.format" in refused.err) == (True, True)
    listed = {row["name"]: row["state"] for row in site.run("hive", "list", "--json").json}
    assert listed[site.orders.short] == "hive"
    done = site.run(*upgrade, *topic, "firn.log.format=firn-json")
    assert done.code == 0, done.err
    shown = site.run("table", "show", site.orders.name, "--json").json
    assert shown["properties"]["firn.log.topic"] == "orders"


def test_each_key_has_a_sequence_field_of_its_own(site: Site) -> None:
    site.works()
    key = f"{site.orders.name}=id"
    ordered = f"{site.orders.name}=v"
    output = site.run("hive", "upgrade", "db.t*", "--primary-key", key, "--sequence-field", ordered, "--json")
    assert output.code == 0
    table = BesideHive.table_name(site.orders)
    with site.beside.database.reading() as uow:
        relation = uow.relations.find(LAKE, table)
        assert relation is not None
        assert uow.keyed.get(relation.id).spec == KeySpec(primary_key=("id",), sequence_field="v")


def test_columns_that_differ_are_told_by_check_and_show(site: Site) -> None:
    site.beside.start(site.orders)
    site.beside.upgrades.activate()
    hive_has(site.beside, site.orders, "id bigint; v int")
    site.beside.syncs.planner.sync_hive_table(LAKE, site.orders.name)
    for output in (site.run("hive", "show", site.orders.name), site.run("hive", "check", site.orders.name)):
        for words in ("v int", "v string", "needs a decision: firn.hive.schema-conflict=ask"):
            assert words in output.out


def test_what_was_done_and_what_is_left_behind_is_told(site: Site) -> None:
    site.beside.start(site.orders, "id")
    site.beside.upgrades.activate()
    output = site.run("hive", "history", site.orders.name)
    assert (output.code, output.out) == (0, "no sync or publish has changed anything since the upgrade\n")
    assert "Hive has every change" in site.run("hive", "show", site.orders.name).out
    merged(site.beside, site.orders, "x", 1, 7)
    job = leased(site.beside, site.orders, x=(1, 7))
    site.beside.published.accept(job.lease, job.location, rows=job.rows)
    site.beside.sync(site.orders)
    assert "published to Hive" in site.run("hive", "history", site.orders.name, "--partition", "p=x").out
    size = sum(path.stat().st_size for path in (site.orders.path / "p=x").iterdir())
    shown = json.loads(site.run("hive", "show", site.orders.name, "--json").out)
    assert (shown["superseded_directories"]["directories"], shown["superseded_directories"]["bytes"]) == (1, size)
    assert "superseded directories" in site.run("hive", "show", site.orders.name).out


def test_a_table_without_a_key_is_shown_while_nobody_knows_how_far_hive_is_behind_it(site: Site) -> None:
    site.beside.start(site.orders)  # its server reaches no metastore, which has the columns of partitions
    site.beside.upgrades.activate()
    output = site.run("hive", "show", site.orders.name, "--json")
    assert (output.code, json.loads(output.out)["behind"]) == (0, None)


def test_a_batch_is_paused_resumed_and_canceled(site: Site) -> None:
    batch = connect(site.run.url).hive.upgrade_many(["db.t*"]).batch
    assert batch is not None
    output = site.run("operation", "pause", "--batch", str(batch.id))
    assert (output.code, output.out) == (0, f"batch {batch.id}: 2 paused\n")
    first, second = site.run("operation", "list", "--batch", str(batch.id), "--json").json
    assert site.run("operation", "resume", first["id"], "--json").json["outcome"] == "waiting"
    refused = site.run("operation", "resume", first["id"])
    assert (refused.code, "it is running" in refused.err) == (1, True)
    assert site.run("operation", "cancel", second["id"], "--json").json["outcome"] == "canceled"
    site.beside.upgrades.activate()
    assert site.run("operation", "show", first["id"], "--json").json["outcome"] == "upgraded"
    assert site.beside.metadata(site.orders) is not None
    assert site.beside.metadata(site.events) is None


def test_databases_are_counted_and_tables_listed_by_where_they_stand(site: Site) -> None:
    client = connect(site.run.url)
    client.hive.upgrade_many([site.orders.name, site.events.name])
    listed = client.transport.get("/catalogs/lake/hive", {"state": "upgrading"})["items"]
    assert {relation["name"] for relation in listed} == {site.orders.short, site.events.short}
    site.beside.upgrades.activate()
    site.orders.drop("x")
    site.beside.metastore.drop_table("db", site.events.short)
    site.beside.syncs.planner.sync_hive_table(LAKE, site.orders.name)
    site.beside.syncs.planner.sync_hive_table(LAKE, site.events.name)

    counts = client.transport.get("/catalogs/lake/hive/databases")
    assert counts == [{"name": "db", "tables": 3, "upgraded": 2, "blocked": 1, "out_of_sync": 1}]
    states = {
        state: [relation["name"] for relation in client.transport.get("/catalogs/lake/hive", {"state": state})["items"]]
        for state in ("hive", "blocked", "upgrading", "upgraded")
    }
    assert states == {
        "hive": [],
        "blocked": ["raw"],
        "upgrading": [],
        "upgraded": sorted([site.orders.short, site.events.short]),
    }
    [gone] = client.transport.get("/catalogs/lake/hive", {"out_of_sync": "true"})["items"]
    assert (gone["name"], "is gone" in gone["drift"]) == (site.events.short, True)
    assert gone["drift_since"] is not None

    [event] = client.transport.get(f"/catalogs/lake/hive/{site.orders.name}/history")["items"]
    assert (event["kind"], event["partition"], event["files"]) == ("dropped", "p=x", 1)
    metadata = site.beside.metadata(site.orders)
    assert metadata is not None
    assert event["snapshot_id"] == str(metadata["current-snapshot-id"])
    assert client.hive.show(site.orders.name)["unpublished"] is None, "a plain table publishes nothing"


def test_whether_files_in_sub_directories_count_is_said_by_the_command(site: Site) -> None:
    site.works()
    (site.events.path / "p=x" / "HIVE_UNION_SUBDIR_1").mkdir()
    refused = site.run("hive", "upgrade", site.events.name)
    assert refused.code != 0
    assert "--subdirectories read" in refused.err
    assert site.run("hive", "check", site.events.name, "--subdirectories", "ignore").code == 0
    output = site.run("hive", "upgrade", "db.t*", "--subdirectories", "read", "--json")
    assert [row["outcome"] for row in output.json] == ["upgraded", "upgraded"]
    metadata = site.beside.metadata(site.events)
    assert metadata is not None
    assert metadata["properties"]["firn.hive.subdirectories"] == "read"
