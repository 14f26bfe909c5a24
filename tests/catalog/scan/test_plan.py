"""How a large scan is cut into tasks, and what tasks are called."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.errors import NoSuchPlan, NoSuchPlanTask
from catalog.scan.mode import CONFIG, PROPERTY, build_planning_config
from catalog.scan.plan import (
    MAX_FILTER_BYTES,
    ManifestSize,
    ScanLimits,
    Slice,
    create_inline_plan_id,
    create_plan_id,
    cut_tasks,
    is_inline,
    parse_plan_id,
    parse_task,
)
from catalog.tables.relation import RelationKind

KNOWN = "6ba7b810-9dad-41d1-80b4-00c04fd430c8"
LIMITS = ScanLimits(inline_files=10, task_files=10, manifests=3, plan_seconds=60)


def sizes(*files: int | None) -> list[ManifestSize]:
    return [ManifestSize(at=at, files=count) for at, count in enumerate(files)]


@given(st.lists(st.none() | st.integers(0, 35), max_size=8))
def test_every_file_is_in_exactly_one_task_and_no_task_is_too_large(files: list[int | None]) -> None:
    tasks = cut_tasks(sizes(*files), LIMITS)
    for at, count in enumerate(files):
        pieces = [piece for task in tasks for piece in task if piece.manifest == at]
        starts = [piece.start for piece in pieces]
        assert [piece.stop for piece in pieces] == [*starts[1:], None]
        assert starts[0] == 0
        known = count or 0
        assert all(stop - start <= LIMITS.task_files for start, stop in zip(starts, [*starts[1:], known], strict=True))
    for task in tasks:
        assert len(task) <= LIMITS.manifests
        whole = [files[piece.manifest] or 0 for piece in task]
        assert len(task) == 1 or sum(whole) <= LIMITS.task_files


def test_a_manifest_of_unknown_size_is_a_task_of_its_own() -> None:
    assert cut_tasks(sizes(2, None, 3), LIMITS) == [(Slice(0),), (Slice(1),), (Slice(2),)]


def test_what_fits_one_answer_is_limited_in_files_and_manifests() -> None:
    assert LIMITS.fits(sizes(4, 6))
    assert not LIMITS.fits(sizes(4, 7))
    assert not LIMITS.fits(sizes(1, 1, 1, 1))
    assert not LIMITS.fits(sizes(None))


def test_names_of_plans_and_tasks_are_read_back() -> None:
    plan = create_plan_id()
    assert parse_plan_id(str(plan)) == plan
    assert parse_task(f"{plan}.12") == (plan, 12)
    assert is_inline(create_inline_plan_id())
    assert not is_inline(str(plan))


@pytest.mark.parametrize("name", ["", "x.1", "-" * 36 + ".1", f"{KNOWN}.\u0661", f"{KNOWN}.1\n"])
def test_other_names_are_nobodys(name: str) -> None:
    with pytest.raises(NoSuchPlanTask):
        parse_task(name)
    with pytest.raises(NoSuchPlan):
        parse_plan_id(name)


@pytest.mark.parametrize(
    ("kind", "mode", "planner"),
    [
        (RelationKind.TABLE, None, None),
        (RelationKind.TABLE, "server", "server"),
        (RelationKind.TABLE, "CLIENT", "client"),
        (RelationKind.TABLE, "both", None),
        (RelationKind.BASE, "server", "client"),
        (RelationKind.CHANGE, None, "client"),
    ],
)
def test_who_plans(kind: RelationKind, mode: str | None, planner: str | None) -> None:
    metadata = {"properties": {} if mode is None else {PROPERTY: mode}}
    assert build_planning_config(kind, metadata) == ({} if planner is None else {CONFIG: planner})


def test_the_longer_a_filter_the_fewer_files_come_with_what_is_left_of_it_in_one_answer() -> None:
    limits = ScanLimits(inline_files=1000, task_files=500, manifests=50, plan_seconds=60)
    assert limits.for_filter(64) == limits
    for written in (0, 100_000, 500_000, 10**9):
        cut_down = limits.for_filter(written)
        most = max(written, MAX_FILTER_BYTES)
        assert cut_down.task_files * written <= most
        assert cut_down.inline_files * written <= most
        assert cut_down.task_files >= 1
