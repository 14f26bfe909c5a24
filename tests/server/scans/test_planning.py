"""Random small tables: what is planned against what the rows and the rules of deletes say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.iceberg.json import Json
from catalog.locations.location_rule import AllowedLocations, FileRule
from catalog.ports.scan import FileTask
from catalog.scan.expression import to_json
from catalog.scan.plan import ScanLimits, cut_tasks, plan_whole_scan
from catalog.scan.request import ScanRequest
from catalog.scan.scan import Scan
from server.files.scans import ManifestScans
from server.files.storage import Storage
from tests.server.scans.lake_table import KINDS, Data, Delete, LakeTable
from tests.server.scans.random_filters import FILTERS, ROWS, SPECS, says

SMALL = ScanLimits(inline_files=1, task_files=2, manifests=2, plan_seconds=1)


@st.composite
def histories(draw: st.DrawFn) -> tuple[int, list[Any], list[list[tuple[Any, ...]]]]:
    """Format version, specs, and what each commit does."""
    version = draw(st.sampled_from((2, 3)))
    specs = draw(st.lists(SPECS, min_size=1, max_size=2, unique_by=lambda spec: repr(sorted(spec))))
    spec = st.integers(0, len(specs) - 1)
    step = st.one_of(
        st.tuples(st.just("add"), spec, st.lists(ROWS, min_size=1, max_size=4)),
        st.tuples(st.just("positions"), st.integers(0, 9), st.sampled_from((None, "named", "bounds"))),
        st.tuples(st.just("vector" if version > 2 else "positions"), st.integers(0, 9), st.none()),
        st.tuples(
            st.just("equal"),
            spec,
            st.lists(st.sampled_from(sorted(set(KINDS) - {"x"})), min_size=1, max_size=2, unique=True),
            st.lists(ROWS, min_size=1, max_size=2),
        ),
        st.tuples(st.just("drop"), st.integers(0, 9)),
        st.tuples(st.just("rewrite")),
    )
    first = st.tuples(st.just("add"), spec, st.lists(ROWS, min_size=1, max_size=6))
    return version, specs, [[draw(first)], *draw(st.lists(st.lists(step, min_size=1, max_size=3), max_size=3))]


def built(place: Path, history: tuple[int, list[Any], list[list[tuple[Any, ...]]]]) -> LakeTable:
    version, specs, commits = history
    table = LakeTable(place, specs, version)
    for steps in commits:
        for step in steps:
            perform(table, *step)
        table.commit()
    return table


def perform(table: LakeTable, action: str, *args: Any) -> None:
    match action, args:
        case "add", (spec, rows):
            table.add(table.spec_ids[spec], rows)
        case "positions", (which, scope) if table.data:
            table.delete_positions(table.data[which % len(table.data)], scope=scope)
        case "vector", (which, _) if table.data:
            table.delete_by_vector(table.data[which % len(table.data)])
        case "equal", (spec, columns, rows):
            table.delete_equal(table.spec_ids[spec], columns, rows)
        case "drop", (which,) if table.data:
            table.drop(table.data[which % len(table.data)])
        case "rewrite", ():
            table.rewrite()


def rule_of(table: LakeTable) -> FileRule:
    allowed = AllowedLocations(catalog="lake", roots=())
    own_locations = [table.metadata["location"]]
    return FileRule(
        table="t", allowed=allowed, own=(), hive_locations=own_locations, others=lambda _: (), links=Storage()
    )


def planned(table: LakeTable, body: Json) -> list[FileTask]:
    files, scan = ManifestScans(Storage()), Scan.of(table.metadata, ScanRequest.parse(body))
    rule = rule_of(table)
    return list(files.tasks(scan, plan_whole_scan(files.sizes(scan, rule)), rule))


def paths(files: Iterable[FileTask]) -> list[str]:
    return [file.content["file-path"] for file in files]


@settings(max_examples=60)
@given(history=histories(), filter_expression=FILTERS)
def test_no_file_with_a_matching_row_is_left_out_and_residuals_decide_as_the_filter_does(
    history: Any, filter_expression: Any
) -> None:
    with TemporaryDirectory() as place:
        table = built(Path(place), history)
        files_by_path = {file.content["file-path"]: file for file in planned(table, {"filter": filter_expression})}
        for data in table.data:
            matching = [row for row in data.rows if says(filter_expression, row)]
            assert data.path in files_by_path or not matching, (filter_expression, data)
            if data.path in files_by_path:
                residual = to_json(files_by_path[data.path].residual)
                assert [row for row in data.rows if says(residual, row)] == matching, (
                    filter_expression,
                    residual,
                    data,
                )
        assert files_by_path.keys() <= {data.path for data in table.data}


@settings(max_examples=50)
@given(history=histories())
def test_each_file_comes_with_exactly_its_deletes(history: Any) -> None:
    with TemporaryDirectory() as place:
        table = built(Path(place), history)
        files = planned(table, {})
        assert sorted(paths(files)) == sorted(data.path for data in table.data)
        by_path = {data.path: data for data in table.data}
        for file in files:
            data = by_path[file.content["file-path"]]
            applied = {delete.content["file-path"] for delete in file.deletes}
            assert len(applied) == len(file.deletes)
            applying = [delete for delete in table.deletes if applies(delete, data, table)]
            assert (
                {delete.path for delete in applying if needed(delete, data)}
                <= applied
                <= {delete.path for delete in applying}
            )


def applies(delete: Delete, data: Data, table: LakeTable) -> bool:
    """The specification's scan planning, sentence by sentence."""
    same_place = (delete.spec_id, repr(delete.partition)) == (data.spec_id, repr(data.partition))
    if delete.kind == "equality":
        unpartitioned = table.manifests().spec(delete.spec_id).is_unpartitioned
        return data.sequence_number < delete.sequence_number and (unpartitioned or same_place)
    if data.sequence_number > delete.sequence_number:
        return False
    if delete.scope is not None and delete.scope != data.path:
        return False
    if delete.kind == "vector":
        return True
    has_vector = any(delete.kind == "vector" and applies(delete, data, table) for delete in table.deletes)
    return same_place and not has_vector


def needed(delete: Delete, data: Data) -> bool:
    """Whether leaving it out would bring a row back."""
    if delete.kind != "equality":
        return True
    return any(tuple(row[name] for name in delete.columns) in delete.values for row in data.rows)


@settings(max_examples=60)
@given(history=histories(), filter_expression=FILTERS)
def test_the_tasks_of_a_plan_are_the_whole_in_pieces(history: Any, filter_expression: Any) -> None:
    with TemporaryDirectory() as place:
        table = built(Path(place), history)
        files, scan = (
            ManifestScans(Storage()),
            Scan.of(table.metadata, ScanRequest.parse({"filter": filter_expression})),
        )
        rule = rule_of(table)
        sizes = files.sizes(scan, rule)
        pieces = [describe_tasks(files.tasks(scan, task, rule)) for task in cut_tasks(sizes, SMALL)]
        every = describe_tasks(files.tasks(scan, plan_whole_scan(sizes), rule))
        assert sorted(chain.from_iterable(pieces), key=repr) == sorted(every, key=repr)


def describe_tasks(files: Iterable[FileTask]) -> list[tuple[Mapping[str, Any], Any, list[str]]]:
    return [
        (file.content, to_json(file.residual), sorted(delete.content["file-path"] for delete in file.deletes))
        for file in files
    ]


@settings(max_examples=20)
@given(history=histories())
def test_an_incremental_scan_reads_what_was_appended_between(history: Any) -> None:
    version, specs, commits = history
    with TemporaryDirectory() as place:
        table = LakeTable(Path(place), specs, version)
        table.add(table.spec_ids[0], commits[0][0][2])
        snapshots, seen = [table.commit()], [{data.path for data in table.data}]
        for steps in commits:
            for step in steps:
                if step[0] == "add":
                    perform(table, *step)
            snapshots.append(table.commit())
            seen.append({data.path for data in table.data})
        for (start, end), (before, after) in zip(pairwise(snapshots), pairwise(seen), strict=True):
            files = planned(table, {"start-snapshot-id": start, "end-snapshot-id": end})
            assert set(paths(files)) == after - before
        every = planned(table, {"start-snapshot-id": snapshots[0], "end-snapshot-id": snapshots[-1]})
        assert set(paths(every)) == seen[-1] - seen[0]
