"""What an import may be asked to do, how directories become names, and what becomes of what is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from catalog.errors import Invalid
from catalog.imports.entry import EntryState
from catalog.imports.judge import Act, Candidate, Misplaced, Present, Rules, judge, warnings_of
from catalog.imports.names import name_of_directory
from catalog.imports.newest import Header
from catalog.imports.spec import ImportSpec, Secrets, SourceKind, checked_spec
from catalog.relation import RelationKind
from tests.factories import a_relation

WAREHOUSE = ImportSpec(kind=SourceKind.WAREHOUSE, address="file:///w")
REST = ImportSpec(kind=SourceKind.REST, address="https://other/iceberg")
HERE = Header(uuid="u", location="/t", updated_ms=5, past=frozenset({"00001-a"}), is_view=False)


def candidate(at: str = "/t/metadata/00002-b", **changes: Any) -> Candidate:
    return Candidate(metadata_location=at, metadata={"properties": {}}, header=replace(HERE, **changes))


def present(at: str, header: Header | None = HERE, **changes: Any) -> Present:
    return Present(relation=a_relation(metadata_location=at, **changes), header=header)


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
        checked_spec(replace(REST, address=address), Secrets())
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("place", ["file:///w/../etc", "warehouse", "file://other/w", "/w/./x"])
def test_warehouses_that_climb_or_are_none_are_refused(place: str) -> None:
    with pytest.raises(Invalid):
        checked_spec(replace(WAREHOUSE, address=place), Secrets())


def test_options_go_with_their_kind_of_source() -> None:
    with pytest.raises(Invalid, match="REST catalog alone"):
        checked_spec(WAREHOUSE, Secrets(token="t"))
    with pytest.raises(Invalid, match="warehouse alone"):
        checked_spec(replace(REST, namespace_depth=1), Secrets())
    with pytest.raises(Invalid, match="one of them"):
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
    assert str(name_of_directory(path.split("/"), depth=depth, into=into)) == name


def test_a_directory_without_one_above_it_names_no_table() -> None:
    with pytest.raises(Invalid, match="names a namespace"):
        name_of_directory(["orders"], depth=None, into=())


def test_what_is_not_there_is_added_unless_another_lies_in_its_place() -> None:
    assert judge(candidate(), None, None, Rules()).act is Act.ADD
    shared = judge(candidate(), None, Misplaced("it lies in another table"), Rules(overwrite=True))
    assert (shared.act, shared.state) == (Act.NOTHING, EntryState.CONFLICT)


def test_another_table_of_the_name_is_replaced_only_when_asked() -> None:
    other = present("/o/metadata/00000-x", replace(HERE, uuid="other"))
    assert judge(candidate(), other, None, Rules(refresh=True)).state is EntryState.CONFLICT
    assert judge(candidate(), other, None, Rules(overwrite=True)).act is Act.REPLACE


@pytest.mark.parametrize("kind", [RelationKind.KEYED, RelationKind.VIEW, RelationKind.BASE])
def test_what_is_no_plain_table_is_never_replaced_by_one(kind: RelationKind) -> None:
    taken = present("/o/metadata/00000-x", None if kind is RelationKind.KEYED else HERE, kind=kind)
    assert judge(candidate(), taken, None, Rules(overwrite=True, refresh=True)).act is Act.NOTHING


def test_the_same_table_is_there_already() -> None:
    same = judge(candidate(), present("/t/metadata/00002-b"), None, Rules(overwrite=True))
    assert (same.act, same.state, same.reason) == (Act.NOTHING, EntryState.THERE, None)


def test_a_pointer_follows_its_source_only_along_the_tables_own_history() -> None:
    behind = present("/t/metadata/00001-a", replace(HERE, past=frozenset()))
    assert judge(candidate(), behind, None, Rules()).act is Act.NOTHING
    assert judge(candidate(), behind, None, Rules(refresh=True)).act is Act.REFRESH
    committed_here = present("/t/metadata/00002-mine", replace(HERE, past=frozenset({"00001-a"})))
    assert judge(candidate(), committed_here, None, Rules(refresh=True)).state is EntryState.CONFLICT
    assert judge(candidate(), committed_here, None, Rules(overwrite=True)).act is Act.NOTHING
    ahead = present("/t/metadata/00003-mine", replace(HERE, past=frozenset({"00002-b"})))
    assert judge(candidate(), ahead, None, Rules(refresh=True)).state is EntryState.THERE


def test_files_outside_of_the_warehouse_are_told_of() -> None:
    properties = {"write.data.path": "s3://b/d", "write.metadata.path": "file:///w/m", "gc.enabled": "false"}
    found = replace(candidate(location="/elsewhere"), metadata={"properties": properties})
    lies, data, gc = warnings_of(found, "file:/w")
    assert "/elsewhere" in lies
    assert "s3://b/d" in data
    assert "gc.enabled" in gc
