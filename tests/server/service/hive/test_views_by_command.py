"""Views of the metastore by the command line, against a server in this process beside a Hive in memory."""

from __future__ import annotations

from tests.factories import LAKE
from tests.hive_tables import a_hive_table, a_storage
from tests.server.service.hive.served_site import Site


def test_views_are_created_in_the_order_in_which_they_read_each_other(site: Site) -> None:
    queries = {
        "a_second": "SELECT id FROM db.z_first",
        "b_odd": f"SELECT my_udf(id) AS id FROM {site.orders.name}",
        "z_first": f"SELECT id FROM {site.orders.name}",
    }
    for name, query in queries.items():
        storage = a_storage("", "id bigint")
        site.beside.metastore.add_table(a_hive_table(name=name, storage=storage, type="VIRTUAL_VIEW", view_text=query))
    index, services = site.beside.upgrades.index, site.beside.services
    object.__setattr__(services.hive.views, "index", index)
    index.refresh(services.namespaces.catalog(LAKE))
    site.works()
    assert site.run("hive", "upgrade", site.orders.name).code == 0
    listed = site.run("hive", "views", "--json")
    states = {view["name"]: view["state"] for view in listed.json}
    assert states == {"db.a_second": "waiting", "db.b_odd": "inexact", "db.z_first": "ready"}

    created = site.run("hive", "views", "--create")
    assert created.code == 1, "one of them cannot be created"
    assert "the function my_udf is not known to give the same in Spark" in created.out
    assert created.err.index("created db.z_first") < created.err.index("created db.a_second")
    again = site.run("hive", "views", "DB.*first", "db.a*", "--create", "--ddl")
    assert (again.code, "2 created" in again.err) == (0, True)
    assert "-- db.a_second\nSELECT `id` FROM `db`.`z_first`" in again.out
