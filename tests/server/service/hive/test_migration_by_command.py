"""A migration by the command line and by REST, against a server in this process beside a Hive in memory."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from firn.client import connect
from tests.server.service.hive.served_site import Site


def read_csv(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_migration_is_counted_checked_started_and_reported(site: Site, tmp_path: Path) -> None:
    site.works()
    shown = site.run("hive", "migration")
    assert "eligible" in shown.out
    assert "format" in shown.out, "the blocker has its count and its fix"
    assert "3 are not checked yet" in shown.err
    assert site.run("hive", "upgrade", "--where", "checked=false", "--dry-run", "--name", "check all").code == 1
    counted = site.run("hive", "migration", "--json").json
    assert (counted["tables"], counted["checked"], counted["unknown_size"]) == (3, 3, 0)
    assert {state["state"]: state["tables"] for state in counted["states"] if state["tables"]} == {
        "eligible": 2,
        "blocked": 1,
    }
    assert [(blocker["code"], blocker["example"]) for blocker in counted["blockers"]] == [("format", "db.raw")]

    keys = tmp_path / "keys.csv"
    keys.write_text(f"table,primary_key\n{site.orders.name},id\n", "utf-8")
    done = site.run("hive", "upgrade", "--where", "state=hive", "--keys", str(keys), "--stop-after", "1", "--json")
    assert (done.code, {row["outcome"] for row in done.json}) == (0, {"upgraded"})
    kinds = {relation["name"]: relation["kind"] for relation in site.run("table", "list", "--json").json}
    assert kinds == {site.orders.short: "keyed", site.events.short: "plain"}

    wave, checks = site.run("hive", "waves", "--json").json
    assert checks["selection"] == {"checked": False}
    assert "checked=false" in site.run("hive", "wave", checks["id"]).out
    assert (checks["name"], checks["outcomes"]) == ("check all", {"eligible": 2, "blocked": 1})
    assert (wave["selection"], wave["stop_after"], wave["outcomes"]) == ({"state": "hive"}, 1, {"upgraded": 2})
    assert "upgraded" in site.run("hive", "wave", wave["id"]).out
    report = {row["table"]: row for row in read_csv(site.run("hive", "wave", wave["id"], "--csv").out)}
    assert (report[site.orders.name]["primary_key"], report[site.orders.name]["files"]) == ("id", "2")
    exported = {row["table"]: row for row in read_csv(site.run("hive", "migration", "--csv").out)}
    assert {name: row["state"] for name, row in exported.items()}["db.raw"] == "blocked"
    largest = site.run("hive", "migration", "--tables", "--sort", "bytes", "--where", "min_bytes=1B", "--json").json
    assert [row["bytes"] for row in largest] == sorted((row["bytes"] for row in largest), reverse=True)


def test_what_cannot_be_is_refused_with_what_to_do(site: Site, tmp_path: Path) -> None:
    broken = tmp_path / "keys.csv"
    broken.write_bytes("table,primary_key\n".encode("utf-16"))
    huge = tmp_path / "huge.csv"
    huge.write_bytes(b"x" * 10_000_000)
    for args, message in [
        (["upgrade"], "no tables are named"),
        (["upgrade", "--where", "sise=1"], "no key 'sise'"),
        (["upgrade", "--where", "min_bytes=much"], "write a size"),
        (["upgrade", "--where", "state=gone"], "state"),
        (["upgrade", "--where", "state=hive", "--keys", str(broken)], "not text in UTF-8"),
        (["upgrade", "--where", "state=hive", "--keys", str(huge)], "larger than 4 MiB"),
        (["upgrade", "--where", "state=hive", "--keys", str(tmp_path / "none.csv")], "No such file"),
        (["migration", "--csv", "--json"], "exclude each other"),
        (["migration", "--sort", "size"], "--sort"),
        (["wave", "6a86d1de-6a6f-4f2a-9c1b-000000000000"], "has no wave"),
    ]:
        refused = site.run("hive", *args)
        assert refused.code != 0, args
        assert message in refused.err + refused.out, (args, refused.err, refused.out)
    client = connect(site.run.url)
    assert list(client.hive.waves()) == []
    for path in ("", "/migration", "/migration/csv"):
        answer = client.transport._http.get(
            f"/api/v1/catalogs/lake/hive{path}", params={"search": "a\0b", "writer": "\0"}
        )
        assert answer.status_code == 200
