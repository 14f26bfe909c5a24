"""Access in the console: signing in, being sent back, tokens, roles, the audit log, and what one may not do."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser import OpenPage, violations
from tests.oidc_issuer import Issuer, issuer_process
from tests.spark_fixtures import ServerProcess, server_process

pytestmark = pytest.mark.browser

COLUMNS = [{"name": "id", "type": "long"}]


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuer_process() as running:
        yield running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, issuer: Issuer) -> Iterator[ServerProcess]:
    """Access is on; its client is the administrator."""
    settings = {
        "FIRN_ACCESS__ENABLED": "true",
        "FIRN_ACCESS__CACHE_SECONDS": "0.1",
        "FIRN_ACCESS__AUDIT_FLUSH_SECONDS": "0.2",
        "FIRN_ACCESS__OIDC_ISSUER": issuer.url,
        "FIRN_ACCESS__OIDC_AUDIENCE": "firn",
        "FIRN_ACCESS__OIDC_CLIENT_ID": "firn-console",
    }
    with server_process(tmp_path_factory.mktemp("console-access") / "data", **settings) as running:
        assert running.first_token is not None
        running.http.headers["Authorization"] = f"Bearer {running.first_token}"
        for table in ("sales.orders", "sales.rates", "finance.pay"):
            running.post("catalogs/lake/tables", {"name": table, "columns": COLUMNS})
        yield running


def a_person(server: ServerProcess, name: str, *, role: str | None = None) -> str:
    """A new user's token."""
    server.post("users", {"name": name})
    if role is not None:
        assert server.http.put(f"/api/v1/roles/{role}/members/{name}").is_success
    token = server.post("tokens", {"name": f"of {name}", "owner": name})
    return str(token["token"])


def a_role(server: ServerProcess, name: str, privileges: list[str], **on: Any) -> str:
    server.post("roles", {"name": name, "description": "made by a test"})
    server.post(f"roles/{name}/grants", {"on": on, "privileges": privileges})
    return name


def sign_in(page: Page, token: str) -> None:
    page.get_by_role("textbox", name="Token").fill(token)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("button", name=re.compile("signed in as"))).to_be_visible()


def signed_in(server: ServerProcess, open_page: OpenPage, path: str, token: str | None = None, **how: Any) -> Page:
    page = open_page(f"{server.url}{path}", **how)
    sign_in(page, token or str(server.first_token))
    return page


def reason(button: Locator) -> str:
    """Why a button cannot be pressed."""
    expect(button).to_have_attribute("aria-disabled", "true")
    return button.get_attribute("aria-description") or ""


def test_one_signs_in_with_a_token_and_is_where_one_wanted_to_be(server: ServerProcess, open_page: OpenPage) -> None:
    page = open_page(f"{server.url}/c/lake/tables?kind=plain")
    expect(page.get_by_role("heading", name="Sign in to Firn")).to_be_visible()
    assert violations(page) == []
    page.get_by_role("textbox", name="Token").fill("firn_000000000000_" + "0" * 64)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("the token is not valid")
    sign_in(page, str(server.first_token))
    expect(page).to_have_url(f"{server.url}/c/lake/tables?kind=plain")
    expect(page.get_by_role("table", name="tables")).to_contain_text("sales.orders")
    page.reload()
    expect(page.get_by_role("table", name="tables")).to_contain_text("sales.orders")
    page.get_by_role("button", name="signed in as admin").click()
    expect(page.get_by_text("administers the server")).to_be_visible()
    assert violations(page) == []
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in to Firn")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", name="Sign in to Firn")).to_be_visible()


def test_whoever_has_no_good_token_any_more_is_told_and_comes_back_to_the_page(
    server: ServerProcess, open_page: OpenPage
) -> None:
    token = a_person(server, "bob", role=a_role(server, "readers-of-rates", ["read"], catalog="lake"))
    page = signed_in(server, open_page, "/c/lake/tables/sales.rates?tab=policy", token)
    assert server.http.delete(f"/api/v1/tokens/{token.split('_')[1]}").is_success
    expect(page.get_by_text("Sign in again")).to_be_visible()
    expect(page.get_by_text("was revoked")).to_be_visible()
    assert violations(page) == []
    sign_in(page, str(server.first_token))
    expect(page.get_by_role("heading", level=1)).to_contain_text("sales.rates")
    expect(page.get_by_role("tab", name="Policy")).to_have_attribute("aria-selected", "true")


def test_a_person_signs_in_at_the_issuer(server: ServerProcess, issuer: Issuer, open_page: OpenPage) -> None:
    a_role(server, "analysts", ["read"], catalog="lake", namespace=["sales"])
    issuer.sign_in_as("eve", preferred_username="eve", groups=["analysts"])
    page = open_page(f"{server.url}/c/lake/tables?kind=plain")
    page.get_by_role("button", name=re.compile("Sign in with")).click()
    expect(page.get_by_role("button", name="signed in as eve")).to_be_visible()
    expect(page).to_have_url(f"{server.url}/c/lake/tables?kind=plain")
    tables = page.get_by_role("table", name="tables")
    expect(tables).to_contain_text("sales.orders")
    expect(tables).not_to_contain_text("finance.pay")


def test_a_token_is_made_shown_once_used_and_revoked(server: ServerProcess, open_page: OpenPage) -> None:
    page = signed_in(server, open_page, "/access/tokens")
    page.get_by_role("button", name="Create token").click()
    page.get_by_label("Name", exact=True).fill("nightly load")
    assert violations(page) == []
    page.keyboard.press("Enter")
    shown = page.get_by_role("dialog", name="The token nightly load")
    secret = shown.get_by_label("secret", exact=True).inner_text().strip()
    assert re.fullmatch(r"firn_[0-9a-f]{12}_[0-9a-f]{64}", secret)
    assert violations(page) == []
    page.keyboard.press("Escape")
    expect(shown).to_be_visible()
    shown.get_by_role("button", name="I have copied it").click()
    expect(page.get_by_text(secret)).to_have_count(0)
    used = bearer(secret)
    assert httpx.get(f"{server.url}/api/v1/me", headers=used).json()["name"] == "admin"
    page.reload()
    row = page.get_by_role("row").filter(has_text="nightly load")
    expect(row).not_to_contain_text("never")
    row.get_by_role("button", name="Revoke nightly load").click()
    page.get_by_role("button", name="Revoke it").click()
    expect(row).to_contain_text("revoked")
    assert httpx.get(f"{server.url}/api/v1/me", headers=used).status_code == 401


def test_a_grant_makes_a_table_appear_for_who_has_the_role(server: ServerProcess, open_page: OpenPage) -> None:
    token = a_person(server, "carol")
    hers = signed_in(server, open_page, "/", token)
    expect(hers.get_by_text("Nothing is granted to you yet")).to_be_visible()
    page = signed_in(server, open_page, "/access/roles")
    page.get_by_role("button", name="Create role").click()
    page.get_by_label("Name", exact=True).fill("order-readers")
    page.keyboard.press("Enter")
    expect(page.get_by_text("No privileges yet")).to_be_visible()
    page.get_by_label("Namespace", exact=True).fill("sales")
    page.get_by_label("Table or view").fill("orders")
    page.get_by_role("button", name="Grant", exact=True).click()
    matrix = page.get_by_role("table", name="grants of order-readers")
    expect(matrix.get_by_label("read on lake.sales.orders")).to_be_checked()
    page.get_by_role("combobox", name="name of a user or service").fill("carol")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Give the role").click()
    expect(page.get_by_role("button", name="take order-readers from carol")).to_be_visible()
    hers.goto(f"{server.url}/c/lake/tables")
    tables = hers.get_by_role("table", name="tables")
    expect(tables).to_contain_text("sales.orders")
    expect(tables).not_to_contain_text("sales.rates")
    matrix.get_by_label("drop on lake.sales.orders").click()
    expect(matrix.get_by_label("drop on lake.sales.orders")).to_be_checked()
    matrix.get_by_label("read on lake.sales.orders").click()
    expect(matrix.get_by_label("read on lake.sales.orders")).not_to_be_checked()
    assert granted(server, "order-readers") == [["drop"]]


def test_what_one_may_not_do_is_disabled_and_says_which_privilege_it_takes(
    server: ServerProcess, open_page: OpenPage
) -> None:
    token = a_person(server, "dave", role=a_role(server, "lookers", ["read"], catalog="lake", namespace=["sales"]))
    page = signed_in(server, open_page, "/c/lake/tables/sales.orders", token)
    assert "“maintain” on lake.sales.orders" in reason(page.get_by_role("button", name="Rewrite"))
    expect(page.get_by_label("protected against dropping")).to_be_disabled()
    page.get_by_role("tab", name="History").click()
    assert "“write” on lake.sales.orders" in reason(page.get_by_role("button", name="Roll back"))
    assert violations(page) == []
    page.goto(f"{server.url}/access/people")
    expect(page.get_by_text("Only administrators see people and services")).to_be_visible()
    page.goto(f"{server.url}/c/lake")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Home")
    page.wait_for_timeout(4000)
    forbidden = server.get("audit?principal=dave&verdict=forbidden")["items"]
    assert forbidden == [], "the console asks for nothing that one may not see"


def test_a_service_is_made_with_its_secret_disabled_and_enabled(server: ServerProcess, open_page: OpenPage) -> None:
    page = signed_in(server, open_page, "/access/people?kind=services")
    page.get_by_role("button", name="Create service").click()
    page.get_by_label("Name", exact=True).fill("spark-etl")
    page.keyboard.press("Enter")
    shown = page.get_by_role("dialog", name="The service spark-etl")
    credential = shown.get_by_label("secret", exact=True).inner_text().strip()
    shown.get_by_role("button", name="I have copied it").click()
    assert signs_in(server, credential) == 200
    row = page.get_by_role("row").filter(has_text="spark-etl")
    row.get_by_role("button", name="Roles of spark-etl").click()
    page.get_by_role("dialog").get_by_label("optimizer").click()
    page.get_by_role("button", name="Save").click()
    expect(row).to_contain_text("optimizer")
    row.get_by_role("button", name="more about spark-etl").click()
    page.get_by_role("menuitem", name="Disable").click()
    page.get_by_role("button", name="Disable", exact=True).click()
    expect(row).to_contain_text("disabled")
    assert signs_in(server, credential) == 401
    row.get_by_role("button", name="more about spark-etl").click()
    page.get_by_role("menuitem", name="Enable").click()
    expect(row).to_contain_text("enabled")


def test_the_audit_log_is_filtered_by_the_server_and_a_link_is_a_view(
    server: ServerProcess, open_page: OpenPage
) -> None:
    token = a_person(
        server, "mallory", role=a_role(server, "pay-listers", ["list"], catalog="lake", namespace=["finance"])
    )
    refused = httpx.get(f"{server.url}/api/v1/catalogs/lake/tables/finance.pay", headers=bearer(token))
    assert refused.status_code == 403
    page = signed_in(server, open_page, "/access/audit")
    page.get_by_label("who", exact=True).fill("mallory")
    page.get_by_role("combobox", name="decision").click()
    page.get_by_role("option", name="forbidden").click()
    rows = page.get_by_role("table", name="audit").get_by_role("row")
    expect(rows).to_have_count(2)
    expect(rows.last).to_contain_text("lake.finance.pay")
    expect(rows.last).to_contain_text("403")
    expect(page).to_have_url(re.compile("(?=.*who=mallory)(?=.*decision=forbidden)"))
    page.reload()
    expect(rows).to_have_count(2)
    page.get_by_label("on what").fill("lake.sales")
    expect(page.get_by_text("No matching requests")).to_be_visible()


def test_the_audit_log_shows_reads_that_were_allowed_on_request(server: ServerProcess, open_page: OpenPage) -> None:
    token = a_person(server, "trent", role=a_role(server, "all-listers", ["list"], catalog="lake"))
    assert httpx.get(f"{server.url}/api/v1/catalogs/lake/tables", headers=bearer(token)).status_code == 200
    assert httpx.delete(f"{server.url}/api/v1/catalogs/lake/tables/no.table", headers=bearer(token)).status_code == 403
    page = signed_in(server, open_page, "/access/audit?who=trent")
    rows = page.get_by_role("table", name="audit").get_by_role("row")
    expect(rows).to_have_count(2)
    expect(rows.last).to_contain_text("was refused: drop table")
    page.get_by_role("combobox", name="reads or changes").click()
    page.get_by_role("option", name="Reads and changes").click()
    expect(rows).to_have_count(3, timeout=30_000)  # reads are written in batches
    expect(rows.filter(has_text="allowed")).to_have_count(1)


@pytest.mark.parametrize("path", ["people", "people?kind=services", "tokens?owner=*", "roles", "roles/admin", "audit"])
def test_axe_finds_nothing_wrong_in_light_and_dark(server: ServerProcess, open_page: OpenPage, path: str) -> None:
    page = signed_in(server, open_page, f"/access/{path}")
    expect(page.get_by_role("table")).to_be_visible()
    assert violations(page) == []
    page.set_viewport_size({"width": 1000, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= 1000


def bearer(token: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {token}"}


def granted(server: ServerProcess, role: str) -> list[list[str]]:
    return [grant["privileges"] for grant in server.get(f"roles/{role}")["grants"]]


def signs_in(server: ServerProcess, credential: str) -> int:
    """The status of the answer to an engine with this credential."""
    client_id, _, secret = credential.partition(":")
    form = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": secret}
    return httpx.post(f"{server.url}/iceberg/v1/oauth/tokens", data=form).status_code
