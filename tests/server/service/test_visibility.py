"""Pages of lists for those who see only a part of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.access.privileges import Grant, Privilege, Rights, Securable
from catalog.names import CatalogName
from catalog.ports.page import Page
from server.service.access import visibility as module
from server.service.access.visibility import Visibility

LAKE = CatalogName("lake")
DB = Securable(LAKE, ("db",))


class Rows:
    """A table's worth of numbers, and how often it was asked."""

    def __init__(self, count: int) -> None:
        self.count, self.fetches = count, 0

    def fetch(self, limit: int, cursor: str | None) -> Page[int]:
        self.fetches += 1
        start = int(cursor or 0)
        items = list(range(start, min(start + limit, self.count)))
        return Page(items, str(start + limit) if start + limit < self.count else None)


def pages(visible: Visibility, rows: Rows, seen: set[int], limit: int) -> list[list[int]]:
    pages_read: list[list[int]] = []
    cursor: str | None = None
    while True:
        page = visible.page(rows.fetch, seen.__contains__, within=DB, limit=limit, cursor=cursor)
        pages_read.append(list(page.items))
        if page.next_cursor is None:
            return pages_read
        cursor = page.next_cursor


SOME = Visibility(Rights.of([Grant(Securable(LAKE, ("db",), "t"), Privilege.READ)]))


@given(count=st.integers(0, 60), seen=st.sets(st.integers(0, 59)), limit=st.integers(1, 7), chunk=st.integers(1, 9))
def test_every_page_is_full_but_the_last_and_nothing_is_lost(
    count: int, seen: set[int], limit: int, chunk: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "CHUNK", chunk)
        pages_read = pages(SOME, Rows(count), seen, limit)
    visible = sorted(row for row in seen if row < count)
    assert [row for page in pages_read for row in page] == visible
    assert all(len(page) == limit for page in pages_read[:-1])
    assert pages_read[-1] or not visible  # an empty page after others would tell that something is hidden


def test_who_sees_everything_costs_one_query_a_page() -> None:
    rows = Rows(100)
    visible = Visibility(Rights.of([Grant(Securable(LAKE), Privilege.READ)]))
    assert len(visible.page(rows.fetch, lambda _: False, within=DB, limit=10, cursor=None).items) == 10
    assert rows.fetches == 1


def test_without_access_control_everything_is_seen() -> None:
    assert Visibility.to(None).sees(DB)
    assert Visibility.to(None).page(Rows(5).fetch, lambda _: False, within=DB, limit=9, cursor=None).items == [
        0,
        1,
        2,
        3,
        4,
    ]
