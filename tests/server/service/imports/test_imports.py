"""Whole imports from real directories: what is taken, what is left alone, and what people are told."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from catalog.errors import Conflict, Invalid, NotFound
from catalog.history.commit import TableCommit
from catalog.imports.spec import Secrets
from catalog.jobs.operation import OperationId
from catalog.names import TableName
from firn.protocol.imports import EntryState
from firn.protocol.operations import OperationStatus
from server.background.cleanup import IMPORTS_KEPT, Cleanup
from server.identity.sealing import KEY_FILE, Sealer
from server.service.commit.commit_path import CommitRequest
from tests.factories import LAKE
from tests.hive_tables import a_hive_table
from tests.server.lake import PLAIN, set_property
from tests.server.service.imports.importing import Importing


def test_what_another_catalog_has_written_is_found_where_its_own_pointers_are(here: Importing, tmp_path: Path) -> None:
    catalog = SqlCatalog("other", uri=f"sqlite:///{tmp_path / 'other.db'}", warehouse=here.elsewhere.uri)
    rows = pa.table({"id": [1, 2, 3]})
    for namespace in ("sales", "hr"):
        catalog.create_namespace(namespace)
        for name in ("a", "b"):
            table = catalog.create_table(f"{namespace}.{name}", rows.schema)
            table.append(rows)
            table.append(rows)
    operation = here.run()
    assert {name: str(entry.state) for name, entry in operation.items()} == dict.fromkeys(
        ["hr.a", "hr.b", "sales.a", "sales.b"], "registered"
    )
    for name in operation:
        at = catalog.load_table(name).metadata_location
        assert here.pointer(name) == at
        assert here.services.tables.load(LAKE, TableName.parse(name)).metadata_location == at
    with here.reading() as uow:
        relation = here.relation("hr.a")
        assert relation is not None
        assert uow.stats.get(relation.id).records == 6


def test_a_dry_run_tells_what_the_import_then_does_and_changes_nothing(here: Importing) -> None:
    here.elsewhere.table("sales/a")
    here.elsewhere.view("sales/v")
    here.elsewhere.table("hr/a", file="v3.gz.metadata.json")
    here.elsewhere.table("hr/a-0123456789ab")  # the same name without what makes it unique
    here.elsewhere.write("hr/torn", "00000-a.metadata.json", b'{"format-vers')
    dry = here.states(here.spec(dry_run=True))
    assert dry == {"hr.a": "conflict", "hr.torn": "skipped", "sales.a": "ready", "sales.v": "ready"}
    assert here.relation("sales.a") is None
    assert not here.services.namespaces.exists(LAKE, ("sales",))
    real = here.states()
    assert real == {name: state.replace("ready", "registered") for name, state in dry.items()}
    assert here.pointer("hr.a") == here.elsewhere.location("hr/a", "v3.gz.metadata.json")


def test_an_import_that_is_repeated_takes_nothing_twice(here: Importing) -> None:
    here.elsewhere.table("sales/a")
    here.elsewhere.view("sales/v")
    assert set(here.states().values()) == {"registered"}
    before = here.relation("sales.a")
    assert set(here.states(here.spec(overwrite=True, refresh=True)).values()) == {"there"}
    assert here.relation("sales.a") == before


def test_metadata_is_taken_as_it_is_and_commits_go_on_counting(here: Importing) -> None:
    metadata = here.elsewhere.table("sales/a", file="00041-x.metadata.json", properties={"gc.enabled": "false"})
    entry = here.run()["sales.a"]
    assert [text for text in entry.warnings if "outside" in text] != []
    name = TableName(("sales",), "a")
    assert json.loads(here.services.tables.load(LAKE, name).text) == metadata
    change = TableCommit(name=name, updates=[set_property("a", "b")])
    here.services.committer.commit(CommitRequest(catalog=LAKE, changes=[change]))
    at = here.pointer("sales.a")
    assert at is not None
    assert at.startswith(f"{here.elsewhere.uri}/sales/a/metadata/00042-")
    properties = here.services.metadata.load(at).parsed["properties"]
    assert (properties["gc.enabled"], properties["a"]) == ("false", "b")
    assert here.states() == {"sales.a": "there"}


def test_another_table_of_the_name_is_kept_unless_its_replacement_is_asked_for(here: Importing) -> None:
    here.elsewhere.table("sales/a")
    here.run()
    before = here.pointer("sales.a")
    (here.elsewhere.root / "sales/a").rename(here.elsewhere.root.parent / "gone")
    here.elsewhere.table("sales/a", file="00007-b.metadata.json")
    assert here.states() == {"sales.a": "conflict"}
    assert here.pointer("sales.a") == before
    assert here.states(here.spec(overwrite=True)) == {"sales.a": "registered"}
    assert here.pointer("sales.a") == here.elsewhere.location("sales/a", "00007-b.metadata.json")


def test_a_source_that_moved_on_is_followed_only_when_asked_and_only_forward(here: Importing) -> None:
    first = here.elsewhere.table("sales/a")
    here.run()
    second = here.elsewhere.successor("sales/a", first, "00000-a.metadata.json", "00001-b.metadata.json")
    entry = here.run()["sales.a"]
    assert (entry.state, entry.hint) == (EntryState.THERE, "--refresh follows the source")
    assert here.states(here.spec(refresh=True, dry_run=True)) == {"sales.a": "ready"}
    assert here.pointer("sales.a") == here.elsewhere.location("sales/a")
    assert here.states(here.spec(refresh=True)) == {"sales.a": "refreshed"}
    assert here.pointer("sales.a") == here.elsewhere.location("sales/a", "00001-b.metadata.json")
    name = TableName(("sales",), "a")
    change = TableCommit(name=name, updates=[set_property("mine", "yes")])
    here.services.committer.commit(CommitRequest(catalog=LAKE, changes=[change]))
    ours = here.pointer("sales.a")
    here.other.namespaces = {("sales",): {}}
    theirs = here.elsewhere.successor("sales/a", second, "00001-b.metadata.json", "00002-theirs.metadata.json")
    here.other.located = {(("sales",), "a"): here.elsewhere.location("sales/a", "00002-theirs.metadata.json")}
    assert theirs["table-uuid"] == first["table-uuid"]
    assert here.states(here.rest(refresh=True, overwrite=True)) == {"sales.a": "conflict"}
    assert here.pointer("sales.a") == ours


def test_two_files_of_one_version_are_left_to_a_person(here: Importing) -> None:
    first = here.elsewhere.table("sales/a")
    here.elsewhere.successor("sales/a", first, "00000-a.metadata.json", "00001-b.metadata.json")
    here.elsewhere.successor("sales/a", first, "00000-a.metadata.json", "00001-c.metadata.json", properties={"x": "y"})
    entry = here.run()["sales.a"]
    assert entry.state is EntryState.AMBIGUOUS
    assert "00001-b.metadata.json, 00001-c.metadata.json" in (entry.reason or "")
    assert here.relation("sales.a") is None


def test_a_location_that_another_table_has_is_not_taken_twice(here: Importing) -> None:
    here.elsewhere.table("sales/a")
    here.run()
    entry = here.run(here.spec(into=("copy",)))["copy.sales.a"]
    assert entry.state is EntryState.CONFLICT
    assert "in another table's directory" in (entry.reason or "")
    assert "lake.sales.a" not in f"{entry.reason} {entry.hint}"
    assert (entry.metadata_location, entry.uuid, entry.location) == (None, None, None)


def test_patterns_depth_and_target_choose_what_comes_and_where(here: Importing) -> None:
    for path in ("eu/sales.db/a", "eu/sales.db/tmp_a", "us/hr.db/b"):
        here.elsewhere.table(path)
    chosen = here.spec(include=("sales.*",), exclude=("*.tmp_*",), namespace_depth=1, into=("old",))
    assert here.states(chosen) == {"old.sales.a": "registered"}
    assert not here.services.namespaces.exists(LAKE, ("old", "hr"))


def test_a_table_without_a_namespace_needs_one(here: Importing) -> None:
    here.elsewhere.table("a")
    entry = here.run()["a"]
    assert entry.state is EntryState.FAILED
    assert "--into" in (entry.reason or "")
    assert here.states(here.spec(into=("db",))) == {"db.a": "registered"}


def test_tables_are_looked_for_beside_but_never_inside_of_tables(here: Importing) -> None:
    here.elsewhere.table("sales/a")
    here.elsewhere.table("sales/a/data/inner")
    here.elsewhere.table("sales/_hidden/b")
    (here.elsewhere.root / "sales/c/metadata").mkdir(parents=True)
    (here.elsewhere.root / "sales/c/metadata/snap-1.avro").write_bytes(b"left over")
    assert here.states() == {"sales.a": "registered"}


def test_compressed_metadata_is_read(here: Importing) -> None:
    metadata = here.elsewhere.table("sales/a")
    (here.elsewhere.root / "sales/a/metadata/00000-a.metadata.json").unlink()
    here.elsewhere.write("sales/a", "00000-a.gz.metadata.json", gzip.compress(json.dumps(metadata).encode()))
    assert here.states() == {"sales.a": "registered"}


def test_a_directory_of_one_table_is_no_warehouse(here: Importing) -> None:
    here.elsewhere.table("sales/a")
    operation = here.start(here.spec(address=f"{here.elsewhere.uri}/sales/a"))
    here.imports.activate()
    ended = here.operation(operation)
    assert (ended.status, "one table" in (ended.error or "")) == (OperationStatus.FAILED, True)


def test_an_empty_warehouse_is_told_of(here: Importing) -> None:
    operation = here.start(here.spec())
    here.imports.activate()
    assert here.operation(operation).result["notes"] == [f"no Iceberg table lies below {here.elsewhere.uri}"]


def test_another_catalogs_namespaces_come_with_their_properties(here: Importing) -> None:
    here.elsewhere.table("x/a")
    here.elsewhere.view("x/v")
    here.other.namespaces = {("db",): {"owner": "ann"}, ("db", "deep"): {}, ("empty",): {"k": "v"}}
    here.other.located = {(("db", "deep"), "a"): here.elsewhere.location("x/a")}
    here.other.viewed = {(("db",), "v"): here.elsewhere.location("x/v")}
    assert here.states(here.rest()) == {"db.deep.a": "registered", "db.v": "registered"}
    assert here.services.namespaces.properties(LAKE, ("db",)) == {"owner": "ann"}
    assert here.services.namespaces.properties(LAKE, ("empty",)) == {"k": "v"}
    assert here.services.views.load(LAKE, TableName(("db",), "v")).metadata_location == here.elsewhere.location("x/v")


def test_a_namespace_that_is_here_keeps_its_properties(here: Importing) -> None:
    here.services.namespaces.create(LAKE, ("db",), {"owner": "me"})
    here.other.namespaces = {("db",): {"owner": "ann"}}
    here.run(here.rest())
    assert here.services.namespaces.properties(LAKE, ("db",)) == {"owner": "me"}


def test_what_is_no_name_here_fails_alone(here: Importing) -> None:
    here.elsewhere.table("x/a")
    here.other.namespaces = {("db",): {}}
    here.other.located = {(("db",), name): here.elsewhere.location("x/a") for name in ("nul\0", " a", "a")}
    states = here.states(here.rest())
    assert sorted(states.values()) == ["failed", "failed", "registered"]


def test_metadata_that_is_gone_or_is_none_fails_alone(here: Importing) -> None:
    here.elsewhere.table("x/a")
    here.elsewhere.view("x/v")
    here.elsewhere.write("x/n", "00000-a.metadata.json", b"[]")
    here.other.namespaces = {("db",): {}}
    places = {"a": "x/a", "gone": "x/gone", "none": "x/n", "view": "x/v"}
    here.other.located = {(("db",), name): here.elsewhere.location(path) for name, path in places.items()}
    here.other.located[("db",), "climbs"] = f"{here.elsewhere.uri}/x/../x/a/metadata/00000-a.metadata.json"
    states = here.states(here.rest())
    assert states.pop("db.a") == "registered"
    assert set(states.values()) == {"failed"}


def test_a_metastores_iceberg_tables_are_taken_and_its_others_counted(here: Importing) -> None:
    here.elsewhere.table("x/a")
    here.elsewhere.view("x/v")
    here.metastore.add_database("db", "of sales", {"owner": "ann"})
    iceberg = {"table_type": "ICEBERG", "metadata_location": here.elsewhere.location("x/a")}
    here.metastore.add_table(a_hive_table(name="a", parameters=iceberg))
    view = {"table_type": "ICEBERG-VIEW", "metadata_location": here.elsewhere.location("x/v")}
    here.metastore.add_table(a_hive_table(name="v", type="VIRTUAL_VIEW", parameters=view))
    here.metastore.add_table(a_hive_table(name="plain"))
    here.metastore.add_table(a_hive_table(name="lost", parameters={"table_type": "iceberg"}))
    operation = here.start(here.hive())
    here.imports.activate()
    states = {name: str(entry.state) for name, entry in here.entries(operation).items()}
    assert states == {"db.a": "registered", "db.v": "registered", "db.lost": "failed"}
    (note,) = here.operation(operation).result["notes"]
    assert note.startswith("1 Hive table is no Iceberg: db.plain. `firn hive upgrade` takes over")
    properties = here.services.namespaces.properties(LAKE, ("db",))
    assert (properties["comment"], properties["owner"]) == ("of sales", "ann")


def test_what_an_import_has_found_is_forgotten_a_month_after_its_end_and_its_counts_stay(here: Importing) -> None:
    here.elsewhere.table("x/a")
    operations = []
    for _ in range(3):
        operations.append(here.start(here.spec()))
        here.imports.activate()
    old, young, running = operations
    with here.database.writing() as uow:
        long_ago = uow.now() - IMPORTS_KEPT
        for operation, ended_at in ((old, long_ago), (young, long_ago + timedelta(minutes=5)), (running, None)):
            uow.operations.put(replace(uow.operations.get(operation.id), ended_at=ended_at))
    remove_expired = Cleanup(here.database)
    assert (remove_expired.activate().import_entries, remove_expired.activate().import_entries) == (
        2,
        0,
    )  # the namespace and the table
    assert [list(here.entries(operation)) for operation in operations] == [[], ["x.a"], ["x.a"]]
    assert here.operation(old).result["counts"] == {"registered": 1}


def test_secrets_are_kept_while_the_import_runs_and_shown_to_nobody(here: Importing) -> None:
    operation = here.start(here.rest(), Secrets(credential="me:hidden"))
    with here.reading() as uow:
        sealed = uow.imports.secrets(operation.id)
        assert sealed is not None
        assert "hidden" not in sealed
        assert here.imports.sealer.unseal(operation.id, sealed) == Secrets(credential="me:hidden")
        assert "hidden" not in repr(uow.operations.get(operation.id))
    here.imports.activate()
    with here.reading() as uow:
        assert uow.imports.secrets(operation.id) is None


def in_files_of(directory: Path, text: str) -> list[str]:
    """Which files of the SQLite database hold a text."""
    return [file.name for file in directory.glob("firn.db*") if text.encode() in file.read_bytes()]


def test_a_credential_is_in_no_file_as_it_is_and_gone_from_all_when_the_import_ends(
    mortal: Importing, tmp_path: Path
) -> None:
    """It stood in the write-ahead log long after its row was deleted."""
    operation = mortal.start(mortal.rest(), Secrets(credential="me:hidden"))
    with mortal.reading() as uow:
        sealed = uow.imports.secrets(operation.id)
    assert sealed is not None
    assert in_files_of(tmp_path, sealed)
    assert in_files_of(tmp_path, "hidden") == []
    mortal.imports.activate()
    assert mortal.operation(operation).status.is_final
    assert in_files_of(tmp_path, sealed[:40]) == []


def test_the_log_is_cut_later_while_somebody_reads_it(mortal: Importing, tmp_path: Path) -> None:
    operation = mortal.start(mortal.rest(), Secrets(credential="me:hidden"))
    with mortal.reading() as uow:
        sealed = uow.imports.secrets(operation.id) or ""
        mortal.imports.activate()
        assert in_files_of(tmp_path, sealed[:40])
    mortal.imports.activate()
    assert in_files_of(tmp_path, sealed[:40]) == []


def test_with_another_key_an_import_says_that_its_credential_is_needed_again(here: Importing, tmp_path: Path) -> None:
    operation = here.start(here.rest(), Secrets(credential="me:hidden"))
    other = replace(here.imports, sealer=Sealer("another key of thirty-two letters", tmp_path))
    other.activate()
    ended = here.operation(operation)
    assert ended.status is OperationStatus.FAILED
    assert "cannot be decrypted" in (ended.error or "")
    assert "start the import again with its credential" in (ended.hint or "")


def test_a_restarted_server_reads_the_credential_with_the_key_of_its_data_directory(here: Importing) -> None:
    operation = here.start(here.rest(), Secrets(token="hidden"))
    with here.reading() as uow:
        sealed = uow.imports.secrets(operation.id) or ""
    sealer = here.imports.sealer
    assert isinstance(sealer, Sealer)
    again = Sealer(None, sealer.data_dir)
    assert again.unseal(operation.id, sealed) == Secrets(token="hidden")
    assert ((again.data_dir / KEY_FILE).stat().st_mode & 0o077) == 0
    with pytest.raises(Invalid, match="another key"):
        again.unseal(OperationId(uuid4()), sealed)  # a row that was moved to another operation


def test_one_source_is_imported_once_at_a_time(here: Importing) -> None:
    here.start(here.spec())
    with pytest.raises(Conflict, match="is being imported already"):
        here.start(here.spec(dry_run=True))


def test_a_table_is_registered_by_its_file_alone(here: Importing) -> None:
    here.elsewhere.table("x/a")
    registrar = here.imports.registrar
    with pytest.raises(Invalid, match="no plain location"):
        registrar.read(LAKE, PLAIN, f"{here.elsewhere.uri}/x/../x/a/metadata/00000-a.metadata.json")
    with pytest.raises(NotFound):
        registrar.read(LAKE, PLAIN, here.elsewhere.location("x/nothing"))
