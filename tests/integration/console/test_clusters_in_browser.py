"""Clusters in the console: an HDFS that does not answer, and how the server starts optimizers on YARN."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser import OpenPage, violations
from tests.server.kerberos.keytabs import write_keytab
from tests.spark_fixtures import ServerProcess, server_process

pytestmark = pytest.mark.browser

NAME_NODES = {"a": "127.0.0.1:1", "b": "127.0.0.1:2"}
"""Nobody listens there."""
REALM = "NOWHERE.TEST"


def write_cluster(directory: Path) -> Path:
    """The files of a cluster with Kerberos whose name service `prod` has two name nodes."""
    properties = {
        "dfs.nameservices": "prod",
        "dfs.ha.namenodes.prod": ",".join(NAME_NODES),
        **{f"dfs.namenode.rpc-address.prod.{name}": address for name, address in NAME_NODES.items()},
    }
    text = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in properties.items()
    )
    secure = "<property><name>hadoop.security.authentication</name><value>kerberos</value></property>"
    (directory / "core-site.xml").write_text(f"<configuration>{secure}</configuration>", encoding="utf-8")
    (directory / "hdfs-site.xml").write_text(f"<configuration>{text}</configuration>", encoding="utf-8")
    return directory


def write_realm(directory: Path) -> Path:
    """The file of a realm whose KDC does not answer."""
    path = directory / "krb5.conf"
    path.write_text(f"[realms]\n  {REALM} = {{\n    kdc = 127.0.0.1:1\n  }}\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Access is on, as a launch demands; a catalog lies on the cluster, for which the server has no ticket."""
    conf_dir = write_cluster(tmp_path_factory.mktemp("conf"))
    settings = {
        "FIRN_ACCESS__ENABLED": "true",
        "FIRN_HADOOP__CONF_DIR": str(conf_dir),
        "FIRN_HADOOP__PRINCIPAL": f"firn@{REALM}",
        "FIRN_HADOOP__KEYTAB": str(write_keytab(conf_dir / "firn.keytab", f"firn@{REALM}")),
        "KRB5_CONFIG": str(write_realm(conf_dir)),
    }
    with server_process(tmp_path_factory.mktemp("console-clusters") / "data", **settings) as running:
        running.http.headers["Authorization"] = f"Bearer {running.first_token}"
        running.post("catalogs", {"name": "cluster", "warehouse": "hdfs://prod/user/firn"})
        yield running


def signed_in(server: ServerProcess, open_page: OpenPage, path: str) -> Page:
    """The page, as the administrator sees it."""
    page = open_page(f"{server.url}{path}")
    page.get_by_role("textbox", name="Token").fill(str(server.first_token))
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("button", name=re.compile("signed in as"))).to_be_visible()
    return page


def test_a_cluster_that_does_not_answer_and_a_missing_ticket_are_told_on_settings_and_home(
    server: ServerProcess, open_page: OpenPage
) -> None:
    page = signed_in(server, open_page, "/settings")
    heading = page.get_by_role("heading", name="HDFS cluster hdfs://prod")
    clusters = page.locator("section", has=heading)
    expect(clusters).to_contain_text("hdfs://prod")
    for address in NAME_NODES.values():
        expect(clusters).to_contain_text(address)
    expect(clusters).to_contain_text("does not answer")
    expect(clusters).to_contain_text(f"firn@{REALM}")
    expect(clusters).to_contain_text("no ticket")
    assert violations(page) == []
    page.goto(f"{server.url}/c/cluster")
    expect(clusters).to_contain_text("does not answer")  # the page of the catalog shows its cluster
    expect(page.get_by_text("KerberosError")).to_have_count(0)
    expect(page.get_by_text("ClusterDown")).to_have_count(0)
    expect(page.get_by_text("An HDFS cluster has stopped answering")).to_be_visible()
    expect(page.get_by_text("The server cannot renew its Kerberos ticket")).to_be_visible()
    expect(page.get_by_text(f"Cannot contact any KDC for realm '{REALM}'; no KDC answers")).to_be_visible()
    assert violations(page) == []


def test_a_launch_on_yarn_is_tried_and_set(server: ServerProcess, open_page: OpenPage) -> None:
    page = signed_in(server, open_page, "/optimizers")
    page.get_by_role("table", name="groups").get_by_role("button", name="default").click()
    page.get_by_role("menuitem", name="Launch…").click()
    dialog = page.get_by_role("dialog", name="Launch of group default")
    dialog.get_by_role("combobox", name="Started by").click()
    page.get_by_role("option", name="spark-submit, on a cluster").click()
    dialog.get_by_label("Master").fill("yarn")
    dialog.get_by_label("Queue").fill("etl")
    dialog.get_by_label("Works as the user").fill("ann")
    dialog.get_by_label("Kerberos principal").fill("firn@EXAMPLE.COM")
    dialog.get_by_role("button", name="Show command").click()
    expect(dialog.get_by_role("alert")).to_contain_text("proxy_user")  # Spark takes a keytab or another user, not both
    dialog.get_by_label("Kerberos principal").fill("")
    dialog.get_by_role("button", name="Show command").click()
    command = dialog.get_by_label("command of the launch", exact=True)
    expect(command).to_contain_text("--proxy-user")
    expect(dialog.get_by_label("spark.conf", exact=True)).to_contain_text("spark.yarn.queue=etl")
    assert violations(page) == []
    assert server.get("groups/default/launch")["kind"] == "none"  # only looked at

    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("table", name="launches")).to_contain_text("spark-submit")
    launch = server.get("groups/default/launch")
    assert (launch["master"], launch["queue"], launch["proxy_user"]) == ("yarn", "etl", "ann")
