"""Decisions follow from grants and names alone."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.access.privileges import (
    INCLUDES,
    SERVER,
    Decision,
    Grant,
    Privilege,
    Rights,
    Securable,
    as_name,
    decide,
    home_namespace,
    limit_grants,
    parse_identifier,
)
from catalog.errors import Invalid
from catalog.names import CatalogName, TableName

LAKE, OTHER = CatalogName("lake"), CatalogName("other")
CATALOG = Securable(LAKE)
DB = Securable(LAKE, ("db",))
INNER = Securable(LAKE, ("db", "inner"))
TABLE = Securable(LAKE, ("db",), "t")
DEEP = Securable(LAKE, ("db", "inner"), "t")
LINE = [SERVER, CATALOG, DB, INNER, DEEP]


@pytest.mark.parametrize("privilege", Privilege)
def test_nothing_is_allowed_and_nothing_exists_without_a_grant(privilege: Privilege) -> None:
    assert {decide(Rights.of([]), privilege, on) for on in LINE[1:]} == {Decision.HIDDEN}
    assert decide(Rights.of([]), privilege, SERVER) is Decision.FORBIDDEN


@pytest.mark.parametrize(("granted", "target"), list(product(range(5), range(5))))
def test_a_grant_holds_for_all_that_lies_in_it_and_nothing_else(granted: int, target: int) -> None:
    rights = Rights.of([Grant(LINE[granted], Privilege.WRITE)])
    expected = Decision.ALLOWED if target >= granted else Decision.FORBIDDEN
    assert decide(rights, Privilege.WRITE, LINE[target]) is expected


def test_beside_a_grant_nothing_exists() -> None:
    rights = Rights.of([Grant(TABLE, Privilege.WRITE)])
    for beside in (Securable(LAKE, ("db",), "u"), INNER, Securable(LAKE, ("db2",)), Securable(OTHER)):
        assert decide(rights, None, beside) is Decision.HIDDEN


def test_names_are_compared_whole_and_part_by_part() -> None:
    rights = Rights.of([Grant(Securable(LAKE, ("a.b",)), Privilege.READ)])
    assert not rights.sees(Securable(LAKE, ("a", "b")))
    assert not rights.sees(Securable(LAKE, ("a.b.c",)))
    assert not rights.sees(Securable(CatalogName("LAKE"), ("a.b",)))


def test_a_table_is_no_namespace_of_the_same_name() -> None:
    rights = Rights.of([Grant(Securable(LAKE, ("db",), "x"), Privilege.READ)])
    assert not rights.sees(Securable(LAKE, ("db", "x")))
    assert not rights.sees(Securable(LAKE, ("db", "x"), "t"))


def test_what_lies_around_a_grant_is_seen_but_no_more() -> None:
    rights = Rights.of([Grant(DEEP, Privilege.READ)])
    for around in (CATALOG, DB, INNER):
        assert decide(rights, None, around) is Decision.ALLOWED
        assert decide(rights, Privilege.LIST, around) is Decision.FORBIDDEN


def test_who_may_create_does_not_see_what_others_have_created() -> None:
    rights = Rights.of([Grant(DB, Privilege.CREATE)])
    assert rights.sees(DB)
    assert not rights.sees(TABLE)


@pytest.mark.parametrize("privilege", Privilege)
def test_a_privilege_brings_those_that_are_written_down_for_it_and_no_other(privilege: Privilege) -> None:
    rights = Rights.of([Grant(DB, privilege)])
    assert {granted for granted in Privilege if rights.has(granted, TABLE)} == INCLUDES[privilege] | {privilege}
    assert all(INCLUDES[included] <= INCLUDES[privilege] for included in INCLUDES[privilege])


def test_nobody_passes_on_more_than_they_have_where_they_have_it() -> None:
    rights = Rights.of([Grant(DB, Privilege.GRANT), Grant(DB, Privilege.READ), Grant(CATALOG, Privilege.DROP)])
    assert rights.covers(Grant(TABLE, Privilege.READ))
    assert rights.covers(Grant(DB, Privilege.DROP))
    assert not rights.covers(Grant(TABLE, Privilege.WRITE))
    assert not rights.covers(Grant(CATALOG, Privilege.DROP))
    assert not rights.covers(Grant(SERVER, Privilege.READ))


def test_a_limit_to_catalogs_cuts_the_server_down_to_them() -> None:
    grants = [
        Grant(SERVER, Privilege.READ),
        Grant(Securable(OTHER, ("db",)), Privilege.WRITE),
        Grant(DB, Privilege.DROP),
    ]
    rights = Rights.of(limit_grants(grants, {LAKE}))
    assert rights.has(Privilege.READ, TABLE)
    assert rights.has(Privilege.DROP, DB)
    assert not rights.has(Privilege.READ, SERVER)
    assert not rights.sees(Securable(OTHER, ("db",)))


scopes = st.sampled_from([*LINE, TABLE, Securable(OTHER), Securable(OTHER, ("db",), "t")])
grants = st.lists(st.builds(Grant, scopes, st.sampled_from(Privilege)), max_size=6)


@given(grants, scopes, st.sampled_from(Privilege))
def test_decisions_are_those_of_looking_at_every_grant(
    held_grants: list[Grant], on: Securable, needed: Privilege
) -> None:
    def lies_in(inner: Securable, outer: Securable) -> bool:
        path = (outer.catalog, *outer.namespace, *([] if outer.table is None else [f"table {outer.table}"]))
        whole = (inner.catalog, *inner.namespace, *([] if inner.table is None else [f"table {inner.table}"]))
        return outer == SERVER or whole[: len(path)] == path

    allowed = any(lies_in(on, g.on) and needed in INCLUDES[g.privilege] | {g.privilege} for g in held_grants)
    listed = any(lies_in(on, g.on) and Privilege.LIST in INCLUDES[g.privilege] | {g.privilege} for g in held_grants)
    seen = on == SERVER or listed or any(lies_in(g.on, on) for g in held_grants)
    expected = Decision.ALLOWED if allowed else Decision.FORBIDDEN if seen else Decision.HIDDEN
    assert decide(Rights.of(held_grants), needed, on) is expected


@given(grants, grants, scopes, st.sampled_from(Privilege))
def test_more_grants_never_allow_less(some: list[Grant], more: list[Grant], on: Securable, needed: Privilege) -> None:
    if decide(Rights.of(some), needed, on) is Decision.ALLOWED:
        assert decide(Rights.of([*some, *more]), needed, on) is Decision.ALLOWED


@pytest.mark.parametrize("name", ["base", "change", "base_at_1_0", "change_at_none_3", f"base_at_{2**63 - 1}_0"])
def test_stores_and_pinned_stores_belong_to_the_table_above(name: str) -> None:
    assert home_namespace(TableName(("db", "orders"), name)) == TableName(("db",), "orders")


@pytest.mark.parametrize("name", ["bases", "base_at_", "base_at_1", "x", "base_at_1_0_0", "BASE"])
def test_other_names_belong_to_themselves(name: str) -> None:
    assert home_namespace(TableName(("db", "orders"), name)) is None


def test_a_store_at_the_top_is_a_plain_table() -> None:
    assert home_namespace(TableName(("db",), "base")) is None


@pytest.mark.parametrize("name", ["", "a:b", "a/b", "a b", "x" * 201])
def test_names_that_fit_into_no_credential_are_refused(name: str) -> None:
    with pytest.raises(Invalid, match="invalid name"):
        parse_identifier(name, "service")


def test_an_issuers_name_becomes_the_nearest_that_fits() -> None:
    assert as_name("Ada Lovelace/x:y") == "Ada_Lovelace_x_y"
    assert parse_identifier(as_name("ada@example.org"), "user") == "ada@example.org"
