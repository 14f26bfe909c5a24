"""What an import may be asked to do, how directories become names, and what becomes of what is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from catalog.errors import Invalid
from catalog.imports.directory_names import derive_table_name
from catalog.imports.import_rules import (
    Candidate,
    ExistingTable,
    ImportAction,
    ImportRules,
    Misplaced,
    decide_import,
    find_warnings,
)
from catalog.imports.newest_metadata import Header
from catalog.imports.spec import ImportSpec, Secrets, check_spec_request
from catalog.tables.relation import RelationKind
from firn.protocol.imports import EntryState, SourceKind
from tests.factories import a_relation

WAREHOUSE = ImportSpec(kind=SourceKind.WAREHOUSE, address="file:///w")
REST = ImportSpec(kind=SourceKind.REST, address="https://other/iceberg")
HERE = Header(uuid="u", location="/t", updated_ms=5, past=frozenset({"00001-a"}), is_view=False)


def candidate(at: str = "/t/metadata/00002-b", **changes: Any) -> Candidate:
    return Candidate(metadata_location=at, metadata={"properties": {}}, header=replace(HERE, **changes))


def present(at: str, header: Header | None = HERE, **changes: Any) -> ExistingTable:
    return ExistingTable(relation=a_relation(metadata_location=at, **changes), header=header)


@pytest.mark.parametrize(
    "address",
    [
        "ftp://host/x",
        "file:///etc/passwd",
        "http://169.254.169.254/latest/meta-data",
        "http://[fe80::1]/",
        "http://[::ffff:169.254.169.254]/",
        "http://0.0.0.0/",
        "http://user:secret@host/",
        "http://host/?token=secret",
        "http://host:port/",
        "http://",
        "http://ho st/",
    ],
)
def test_addresses_that_no_catalog_may_have_are_refused_without_being_repeated(address: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_spec_request(replace(REST, address=address), Secrets())
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("place", ["file:///w/../etc", "warehouse", "file://other/w", "/w/./x"])
def test_warehouses_that_climb_or_are_none_are_refused(place: str) -> None:
    with pytest.raises(Invalid):
        check_spec_request(replace(WAREHOUSE, address=place), Secrets())


def test_options_go_with_their_kind_of_source() -> None:
    with pytest.raises(Invalid, match="only for a REST catalog"):
        check_spec_request(WAREHOUSE, Secrets(token="t"))
    with pytest.raises(Invalid, match="only for a warehouse"):
        check_spec_request(replace(REST, namespace_depth=1), Secrets())
    with pytest.raises(Invalid, match="not both"):
        Secrets(token="t", credential="a:b")


def test_a_spec_comes_back_as_it_was_kept_and_holds_no_secret() -> None:
    spec = replace(REST, include=("a.*",), into=("x", "y"), dry_run=True)
    assert ImportSpec.from_json(spec.to_json()) == spec
    assert "secret" not in repr(Secrets(token="secret")) + repr(Secrets(credential="secret:secret"))


def test_patterns_choose_by_dotted_names() -> None:
    spec = replace(REST, include=("sales.*",), exclude=("*.tmp_*",))
    assert [spec.takes(name) for name in ("sales.a", "sales.eu.a", "sales.tmp_a", "hr.a")] == [True, True, False, False]


@pytest.mark.parametrize(
    ("path", "depth", "into", "name"),
    [
        ("sales/orders", None, (), "sales.orders"),
        ("sales.db/orders", None, (), "sales.orders"),
        ("eu/sales/orders", None, (), "eu.sales.orders"),
        ("eu/sales/orders", 1, (), "sales.orders"),
        ("eu/sales/orders", 0, ("all",), "all.orders"),
        ("sales/orders", None, ("old",), "old.sales.orders"),
        ("orders", None, ("old",), "old.orders"),
        ("sales/orders-0123456789ab", None, (), "sales.orders"),
        ("sales/orders_0c9f2d6a-6d5c-4c1f-9d3e-0d1f2a3b4c5d", None, (), "sales.orders"),
    ],
)
def test_directories_become_names(path: str, depth: int | None, into: tuple[str, ...], name: str) -> None:
    assert str(derive_table_name(path.split("/"), depth=depth, into=into)) == name


def test_a_directory_without_one_above_it_names_no_table() -> None:
    with pytest.raises(Invalid, match="names a namespace"):
        derive_table_name(["orders"], depth=None, into=())


def test_what_is_not_there_is_added_unless_another_lies_in_its_place() -> None:
    assert decide_import(candidate(), None, None, ImportRules()).act is ImportAction.ADD
    shared = decide_import(candidate(), None, Misplaced("it lies in another table"), ImportRules(overwrite=True))
    assert (shared.act, shared.state) == (ImportAction.NOTHING, EntryState.CONFLICT)


def test_another_table_of_the_name_is_replaced_only_when_asked() -> None:
    other = present("/o/metadata/00000-x", replace(HERE, uuid="other"))
    assert decide_import(candidate(), other, None, ImportRules(refresh=True)).state is EntryState.CONFLICT
    assert decide_import(candidate(), other, None, ImportRules(overwrite=True)).act is ImportAction.REPLACE


@pytest.mark.parametrize("kind", [RelationKind.KEYED, RelationKind.VIEW, RelationKind.BASE])
def test_what_is_no_plain_table_is_never_replaced_by_one(kind: RelationKind) -> None:
    existing = present("/o/metadata/00000-x", None if kind is RelationKind.KEYED else HERE, kind=kind)
    assert (
        decide_import(candidate(), existing, None, ImportRules(overwrite=True, refresh=True)).act
        is ImportAction.NOTHING
    )


def test_the_same_table_is_there_already() -> None:
    same = decide_import(candidate(), present("/t/metadata/00002-b"), None, ImportRules(overwrite=True))
    assert (same.act, same.state, same.reason) == (ImportAction.NOTHING, EntryState.THERE, None)


def test_a_pointer_follows_its_source_only_along_the_tables_own_history() -> None:
    behind = present("/t/metadata/00001-a", replace(HERE, past=frozenset()))
    assert decide_import(candidate(), behind, None, ImportRules()).act is ImportAction.NOTHING
    assert decide_import(candidate(), behind, None, ImportRules(refresh=True)).act is ImportAction.REFRESH
    committed_here = present("/t/metadata/00002-mine", replace(HERE, past=frozenset({"00001-a"})))
    assert decide_import(candidate(), committed_here, None, ImportRules(refresh=True)).state is EntryState.CONFLICT
    assert decide_import(candidate(), committed_here, None, ImportRules(overwrite=True)).act is ImportAction.NOTHING
    ahead = present("/t/metadata/00003-mine", replace(HERE, past=frozenset({"00002-b"})))
    assert decide_import(candidate(), ahead, None, ImportRules(refresh=True)).state is EntryState.THERE


def test_files_outside_of_the_warehouse_are_told_of() -> None:
    properties = {"write.data.path": "s3://b/d", "write.metadata.path": "file:///w/m", "gc.enabled": "false"}
    table = replace(candidate(location="/elsewhere"), metadata={"properties": properties})
    lies, data, gc = find_warnings(table, "file:/w")
    assert "/elsewhere" in lies
    assert "s3://b/d" in data
    assert "gc.enabled" in gc
