"""The first thing Firn must do, as somebody with a browser does it: a Hive table becomes a table that merges itself."""

from __future__ import annotations

import re
from contextlib import closing

import pytest
from playwright.sync_api import Locator, Page, expect
from pyspark.sql import SparkSession

from firn.embedded.metastore import EmbeddedMetastore
from firn.spark.sessions import catalog_conf
from firn.spark.write import delete, upsert
from tests.browser import OpenPage, violations
from tests.command_line import Command
from tests.hive_data import CUT_OFF, DATABASE, DAYS, FULL_NAME, NESTED, ROWS_A_DAY, SUBDIRECTORIES, hive_files
from tests.hive_tables import a_hive_table, a_storage
from tests.keyed_tables import a_worker
from tests.server.metastore.hive_side import HiveSide
from tests.spark_fixtures import ServerProcess, shared_spark, wait_for_images

pytestmark = [pytest.mark.browser, pytest.mark.hive, pytest.mark.spark, pytest.mark.timeout(600)]

TABLE = f"lake.{FULL_NAME}"
ALL = ROWS_A_DAY * len(DAYS)


def test_upgrade_change_and_merge(
    linked_server: ServerProcess, metastore: EmbeddedMetastore, open_page: OpenPage
) -> None:
    wait_for_images(linked_server.http)
    before = hive_files(metastore.warehouse)
    page = open_page(f"{linked_server.url}/c/lake/hive")

    what_is_blocked_leads_on(page)
    page.goto(f"{linked_server.url}/c/lake/hive")
    report_of_the_database(page)
    page.goto(f"{linked_server.url}/c/lake/hive")
    upgrade_with_key(page, "id")
    expect(fact(page, "rows")).to_have_text(f"{ALL:,}")
    page.get_by_role("link", name="Open the table").click()
    expect(fact(page, "rows in base")).to_have_text(f"{ALL:,}")
    expect(page.get_by_role("button", name="Merge now")).to_have_attribute("aria-disabled", "true")

    changed, removed, new = change_rows(linked_server)
    expect(fact(page, "pending changes")).to_have_text(str(changed + removed + new))
    assert violations(page) == []

    page.get_by_role("button", name="Merge now").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text(f"merge {changed + removed + new} pending rows")
    dialog.get_by_role("button", name="Merge now").click()
    expect(page.get_by_text("waits for an optimizer")).to_be_visible()
    run_one_job(linked_server)

    expect(fact(page, "pending changes")).to_have_text("0")
    expect(fact(page, "rows in base")).to_have_text(f"{ALL + new - removed:,}")
    page.get_by_role("tab", name="Jobs").click()
    expect(page.get_by_role("row").filter(has_text="merge")).to_contain_text("succeeded")
    page.get_by_role("tab", name="Hive").click()
    expect(page.get_by_text(f"{changed + removed + new} changes in 2 commits")).to_be_visible()
    expect(page.get_by_text("No syncs or publishes since the upgrade")).to_be_visible()
    assert violations(page) == []
    publish_after_a_preview(page, linked_server)
    what_was_left_behind(page, metastore)
    given_back_and_canceled(page, linked_server)
    assert hive_files(metastore.warehouse) == before, "a Hive file was touched"


def test_many_with_subdirectories_and_one_that_fails(linked_server: ServerProcess, open_page: OpenPage) -> None:
    """What is said of sub-directories holds for all tables; the one that failed says so to whoever comes back."""
    page = open_page(f"{linked_server.url}/c/lake/hive")
    page.get_by_role("button", name=f"of {SUBDIRECTORIES}").click()
    expect(page.get_by_text("2 tables of these have files in sub-directories")).to_be_visible()
    expect(page.get_by_role("button", name="Upgrade 1 table")).to_be_visible()
    assert violations(page) == []
    page.get_by_role("combobox", name="Files in subdirectories").click()
    page.get_by_role("option", name="read", exact=True).click()
    expect(page).to_have_url(re.compile("subdirectories=read"))
    expect(page.get_by_text("3 tables with 5 files")).to_be_visible()
    page.get_by_role("button", name="Upgrade 3 tables").click()

    expect(page.get_by_text("All have ended")).to_be_visible()
    upgrades = page.get_by_role("table", name="upgrades")
    for violation in NESTED:
        expect(upgrades.get_by_role("row").filter(has_text=violation.split(".")[1])).to_contain_text("upgraded")
        assert linked_server.get(f"catalogs/lake/tables/{violation}")["records"] == 2 * ROWS_A_DAY
    expect(upgrades.get_by_role("row").filter(has_text="cut_off")).to_contain_text("is not a readable Parquet file")
    assert violations(page) == []

    page.goto(f"{linked_server.url}/c/lake/tables/{NESTED[0]}?tab=hive")
    expect(fact(page, "unpublished changes")).to_have_text("none: Hive lists the table’s own files")
    session(linked_server).sql(f"INSERT INTO lake.{NESTED[0]} VALUES (0, 'here only', 1.0)")
    page.reload()
    expect(fact(page, "unpublished changes")).to_contain_text("1 partition differs, the oldest change")
    assert violations(page) == []

    page.goto(f"{linked_server.url}/c/lake/hive/{CUT_OFF}/upgrade")
    expect(page.get_by_text("The last upgrade failed")).to_contain_text("is not a readable Parquet file")
    expect(page.get_by_text("The failed upgrade changed nothing")).to_be_visible()
    assert violations(page) == []
    page.get_by_role("link", name="View that upgrade").click()
    expect(page).to_have_url(re.compile("operation="))


def test_a_warehouse_is_checked_in_one_wave(linked_server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{linked_server.url}/c/lake/migration", width=1000)
    waves = page.get_by_role("table", name="waves")
    page.get_by_role("button", name=re.compile("Check all")).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.locator("code, pre").first).to_contain_text("firn hive upgrade '*' --catalog lake --dry-run")
    dialog.get_by_label("Name", exact=True).fill("=before we start")
    assert violations(page) == []
    dialog.get_by_role("button", name="Start checks").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    wave = waves.get_by_role("row").filter(has_text="=before we start")
    expect(wave).to_contain_text("blocked")
    expect(page.get_by_role("table", name="Blockers").get_by_role("row").filter(has_text="format")).to_contain_text(
        "raw"
    )
    page.get_by_role("button", name="Blocked", exact=True).click()
    expect(page.get_by_role("table", name="tables of the migration")).to_contain_text(f"{DATABASE}.raw")
    expect(page).to_have_url(re.compile("state=blocked"))
    assert violations(page) == []
    page.get_by_role("button", name="More filters").click()
    page.get_by_role("textbox", name="Format").fill("parquet")
    expect(page.get_by_role("button", name="More filters (1)")).to_be_visible()
    expect(page.get_by_text(f"{DATABASE}.raw", exact=True)).to_have_count(0)
    page.get_by_role("textbox", name="Format").fill("text")
    expect(page.get_by_role("table", name="tables of the migration")).to_contain_text(f"{DATABASE}.raw")
    assert violations(page) == []
    page.get_by_role("button", name="Clear these filters").click()
    expect(page).not_to_have_url(re.compile("format="))


def test_views_of_hive_are_created_or_say_what_differs(
    linked_server: ServerProcess, metastore: EmbeddedMetastore, open_page: OpenPage
) -> None:
    with closing(HiveSide(metastore.uri, metastore.warehouse)) as hive:
        for name, query in {"ids": "SELECT 1 AS id", "odd": f"SELECT my_udf(id) AS id FROM {FULL_NAME}"}.items():
            storage = a_storage("", "id int")
            hive.add_table(a_hive_table(DATABASE, name, type="VIRTUAL_VIEW", storage=storage, view_text=query))
    linked_server.post("catalogs/lake/hive/refresh")
    page = open_page(f"{linked_server.url}/c/lake/migration")
    views = page.get_by_role("table", name="views")
    expect(views.get_by_role("row").filter(has_text=f"{DATABASE}.odd")).to_contain_text(
        "the function my_udf is not known"
    )
    row = views.get_by_role("row").filter(has_text=f"{DATABASE}.ids")
    row.get_by_text("SQL of Spark").click()
    expect(row).to_contain_text("SELECT 1 AS `id`")
    assert violations(page) == []
    row.get_by_role("button", name="Create").click()
    expect(row).to_contain_text("Created")
    assert linked_server.get(f"catalogs/lake/views/{DATABASE}.ids")["name"]


def test_a_metastore_that_is_away_is_what_needs_somebody(linked_server: ServerProcess, open_page: OpenPage) -> None:
    gone = {"name": "gone", "warehouse": f"{linked_server.data_dir.as_uri()}/gone", "metastore": "thrift://127.0.0.1:1"}
    linked_server.post("catalogs", gone)
    page = open_page(f"{linked_server.url}/c/gone/hive")
    page.get_by_role("button", name="Refresh").click()
    expect(page.get_by_text("cannot read the metastore")).to_be_visible()
    for place in ("hive", ""):
        page.goto(f"{linked_server.url}/c/gone/{place}")
        note = page.get_by_role("alert").filter(has_text="etastore stopped answering")
        expect(note).to_contain_text("127.0.0.1")
        assert violations(page) == []
    page.get_by_role("link", name="View", exact=True).click()
    expect(page).to_have_url(re.compile("/c/gone/hive$"))
    output = Command(linked_server.url)("hive", "list", "--catalog", "gone")
    assert "the metastore of gone has not answered since" in output.err
    page.goto(f"{linked_server.url}/c/lake")
    expect(page.get_by_text("etastore stopped answering")).to_have_count(0)


def test_an_upgraded_table_gets_its_log_with_its_key(
    linked_server: ServerProcess, metastore: EmbeddedMetastore, open_page: OpenPage
) -> None:
    location = metastore.warehouse / f"{DATABASE}.db" / "logged"
    location.mkdir(parents=True)
    with closing(HiveSide(metastore.uri, metastore.warehouse)) as hive:
        hive.add_table(a_hive_table(DATABASE, "logged", storage=a_storage(f"file:{location}", "id int; note string")))
    linked_server.post("catalogs/lake/hive/refresh")
    linked_server.post("connections", {"name": "gone", "brokers": ["127.0.0.1:9"]})
    page = open_page(f"{linked_server.url}/c/lake/hive/{DATABASE}.logged/upgrade?step=2&key=id")
    next_step = page.get_by_role("button", name="Next")
    page.get_by_label("Take changes from a topic of Kafka").click()
    expect(next_step).to_have_attribute("aria-disabled", "true")
    page.get_by_role("combobox", name="Connection").click()
    page.get_by_role("option", name="gone").click()
    page.get_by_role("combobox", name="Topic").fill("<b>x</b>")
    expect(page.get_by_text("A topic has 1 to 249 letters")).to_be_visible()
    expect(next_step).to_have_attribute("aria-disabled", "true")
    page.get_by_role("combobox", name="Topic").fill("orders")
    page.get_by_role("combobox", name="Format").click()
    page.get_by_role("option", name="upsert-json", exact=True).click()
    check = page.get_by_role("status", name="check of the log")
    expect(check.get_by_role("listitem").filter(has_text="127.0.0.1:9 does not answer")).to_have_count(1)
    assert violations(page) == []
    next_step.click()
    expect(page.get_by_text("Drains bring the records of topic orders to it")).to_be_visible()
    command = page.get_by_label("the same in a terminal", exact=True)
    expect(command).to_contain_text("--property firn.log.topic=orders --property firn.log.connection=gone")
    assert violations(page) == []
    page.get_by_role("button", name=f"Upgrade {DATABASE}.logged").click()
    expect(page.get_by_text("none moved or rewritten")).to_be_visible()
    properties = linked_server.get(f"catalogs/lake/tables/{DATABASE}.logged")["properties"]
    log = {name: value for name, value in properties.items() if name.startswith("firn.log.")}
    assert log == {"firn.log.topic": "orders", "firn.log.connection": "gone", "firn.log.format": "upsert-json"}


def test_a_text_table_is_rewritten_with_a_key(linked_server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{linked_server.url}/c/lake/hive/{DATABASE}.raw/upgrade?step=1")
    page.get_by_label("Name of the new table").fill(f"{DATABASE}.lines")
    page.get_by_role("combobox", name="Primary key").click()
    page.get_by_role("option", name="id", exact=True).click()
    page.keyboard.press("Escape")
    page.get_by_role("combobox", name="Sequence field").click()
    expect(page.get_by_role("option", name="id", exact=True)).to_have_count(0)
    page.get_by_role("option", name="line", exact=True).click()
    page.get_by_label("Stop if a key occurs more than once").uncheck()
    assert violations(page) == []
    page.get_by_role("button", name=f"Copy to {DATABASE}.lines").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(f"convert of {DATABASE}.lines")
    created = linked_server.get(f"catalogs/lake/tables/{DATABASE}.lines")
    assert (created["kind"], created["primary_key"], created["sequence_field"]) == ("keyed", ["id"], "line")
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_text("canceled").first).to_be_visible()


def what_is_blocked_leads_on(page: Page) -> None:
    """A table that cannot be upgraded cannot be selected; its row says why, and what can be done instead."""
    expect(page.get_by_label(f"select {FULL_NAME}")).to_be_visible()
    expect(page.get_by_label(f"select {DATABASE}.raw")).to_have_count(0)
    page.get_by_role("link", name=f"See why {DATABASE}.raw").click()
    expect(page.get_by_text("1 problem blocks the upgrade")).to_be_visible()
    expect(page.locator("code", has_text=f"firn hive convert {DATABASE}.raw")).to_be_visible()
    expect(page.get_by_role("button", name=f"Copy to {DATABASE}.raw")).to_be_visible()
    assert violations(page) == []


def report_of_the_database(page: Page) -> None:
    """All of a database is checked at once; one table could be upgraded with a key, the other says why not."""
    page.get_by_role("button", name=f"of {DATABASE}").click()
    expect(page.get_by_text("1 table with 2 files")).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="raw")).to_contain_text("is stored as")
    page.get_by_role("combobox", name=f"primary key of {FULL_NAME}").click()
    page.get_by_role("option", name="id", exact=True).click()
    expect(page.get_by_text("1 with a key")).to_be_visible()
    expect(page).to_have_url(re.compile("keys="))
    expect(page.get_by_role("button", name="Upgrade 1 table")).not_to_have_attribute("aria-disabled", "true")
    page.keyboard.press("Escape")
    expect(page.get_by_role("listbox")).to_have_count(0)
    assert violations(page) == []


def upgrade_with_key(page: Page, key: str) -> None:
    """From the list of Hive tables through the wizard to its end."""
    page.get_by_role("link", name=f"Upgrade {FULL_NAME}").click()
    expect(fact(page, "files")).to_have_text(str(len(DAYS)))
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("all files are in formats that Iceberg reads: parquet")).to_be_visible()
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_role("list", name="suggested keys")).to_contain_text("its name is that of a key of this table")
    page.get_by_role("button", name=key, exact=True).click()
    expect(page).to_have_url(re.compile(f"key={key}"))
    expect(page.get_by_label(f"{key} is part of the key")).to_be_checked()
    next_step = page.get_by_role("button", name="Next")
    expect(next_step).not_to_have_attribute("aria-disabled", "true")
    next_step.click()
    expect(page.get_by_text("No Hive file is moved, rewritten or deleted")).to_be_visible()
    page.get_by_role("button", name=f"Upgrade {FULL_NAME}").click()
    expect(page.get_by_text("none moved or rewritten")).to_be_visible()


def publish_after_a_preview(page: Page, server: ServerProcess) -> None:
    """The dialog shows what new directories get. What is pending is merged first; then it is published."""
    columns = "id long, customer string, amount double, day string"
    violation = session(server).createDataFrame([(1, "once more", 1.0, DAYS[0])], columns)
    upsert(violation, TABLE, batch="once more")
    expect(page.get_by_text("1 row pending").first).to_be_visible()
    page.get_by_role("button", name="Publish", exact=True).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("others may not enter")).to_be_visible()
    expect(fact(dialog, "directory now")).to_contain_text(f"{DATABASE}.db/orders/day=")
    dialog.get_by_role("button", name="Publish", exact=True).click()
    expect(dialog).to_have_count(0)
    publish_status = page.get_by_label("requested publish")
    expect(page.get_by_text("1 of 2, merging pending changes")).to_be_visible()
    expect(publish_status.get_by_text("Closing this page does not stop it")).to_be_visible()
    expect(page.get_by_role("button", name="Publish", exact=True)).to_have_attribute("aria-disabled", "true")
    run_one_job(server)
    expect(page.get_by_text("Publish to Hive: writing changed partitions")).to_be_visible()
    run_one_job(server)
    expect(page.get_by_text("Published to Hive", exact=True)).to_be_visible()
    expect(publish_status).to_contain_text("Hive is up to date")
    expect(page.get_by_text("none: Hive is up to date")).to_be_visible()
    expect(page.get_by_text("published to Hive").first).to_be_visible()
    assert violations(page) == []


def what_was_left_behind(page: Page, metastore: EmbeddedMetastore) -> None:
    """Where Hive had the days that were published, and how much of the disk that still takes."""
    size = sum(size for size, _ in hive_files(metastore.warehouse).values())
    expect(page.get_by_text(f"Superseded directories: {size / 1024:.1f} KiB")).to_be_visible()
    left = page.get_by_role("table", name="superseded directories")
    for day in DAYS:
        row = left.get_by_role("row").filter(has_text=f"day={day}").first
        expect(row).to_contain_text(f"{DATABASE}.db/orders/day={day}")
        expect(row.get_by_role("cell", name="Hive", exact=True)).to_be_visible()
    assert violations(page) == []


def given_back_and_canceled(page: Page, server: ServerProcess) -> None:
    """Writers may still know what was left, so it waits: long enough to be looked at, and stopped."""
    page.get_by_role("button", name="more actions").click()
    page.get_by_role("menuitem", name="Downgrade to Hive").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Hive is up to date")
    expect(dialog).to_contain_text("Wait 24 h for Hive jobs started before the last publish")
    assert violations(page) == []
    dialog.get_by_role("button", name="Downgrade", exact=True).click()
    expect(page).to_have_url(re.compile("/c/lake/hive$"))
    page.get_by_role("link", name="Watch").click()
    expect(page.get_by_text(f"Downgrading to Hive as {FULL_NAME}")).to_be_visible()
    expect(page.get_by_role("progressbar", name=f"downgrade of {FULL_NAME}")).to_be_visible()
    expect(page.get_by_text("grace period: Hive is up to date; Firn watches")).to_be_visible()
    assert violations(page) == []
    page.get_by_role("button", name=f"Cancel the downgrade of {FULL_NAME}").click()
    expect(page.get_by_text("Downgrading to Hive as")).to_have_count(0)
    assert server.get(f"catalogs/lake/hive/{FULL_NAME}")["state"] == "upgraded"


def change_rows(server: ServerProcess) -> tuple[int, int, int]:
    """Correct five orders, take two away, add three; how many of each."""
    spark = session(server)
    columns = "id long, customer string, amount double, day string"
    corrected = [(number, "corrected", 1.0, DAYS[0]) for number in range(5)]
    added = [(ALL + number, "new", 2.0, DAYS[1]) for number in range(3)]
    upsert(spark.createDataFrame(corrected + added, columns), TABLE, batch="corrections")
    delete(spark.createDataFrame([(ALL - 1,), (ALL - 2,)], "id long"), TABLE, batch="removals")
    seen = spark.sql(f"SELECT count(*), count_if(customer = 'corrected') FROM {TABLE}").first()
    assert seen is not None
    assert tuple(seen) == (ALL + 3 - 2, 5), "readers see changes before they are merged"
    return 5, 2, 3


def session(server: ServerProcess) -> SparkSession:
    spark = shared_spark().newSession()
    for key, value in catalog_conf(server.url, "lake").items():
        spark.conf.set(key, value)
    return spark


def run_one_job(server: ServerProcess) -> None:
    worker = a_worker(server.url)
    optimizer_id = worker.api.register(**worker.about).id
    assert worker.work_once(optimizer_id, wait_seconds=10)


def fact(page: Page | Locator, name: str) -> Locator:
    """The value beside a name."""
    return page.locator("dt", has_text=re.compile(f"^{re.escape(name)}$")).locator("xpath=../dd")
