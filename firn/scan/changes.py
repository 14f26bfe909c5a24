"""The changes of a keyed table between two versions, without Spark (docs/changes.md).

    client.tables["db.orders"].changes(since=41, images="both").to_pylist()

A *net* feed has one change for each key whose rows differ between the two versions. A feed of *each* change has every
change that took effect, in the order of row ids. Rows before a change are not stored anywhere: they come from the
merged rows at the first version, restricted to the keys that changed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from firn.errors import Invalid
from firn.protocol.answers.changes import FeedSegment, FeedVersion
from firn.protocol.changes import Each, Images
from firn.scan.feed_rows import FeedStores
from firn.scan.lineage import ROW_ID, SEQUENCE
from firn.scan.newest import OP, select_keys
from firn.scan.partial_steps import FollowedRows, follow_changes
from firn.scan.reading import number_rows

CHANGE_TYPE, VERSION, COMMITTED_AT = "_change_type", "_version", "_committed_at"
BEFORE, AFTER = "_before", "_after"
INSERT, UPDATE, DELETE = "insert", "update", "delete"
OWN_COLUMNS = (CHANGE_TYPE, VERSION, COMMITTED_AT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """Changes as places in two tables of rows: -1 where there is no row."""

    before_rows: pa.Table
    after_rows: pa.Table
    before: Sequence[int]
    after: Sequence[int]
    versions: pa.Array
    times: pa.Array


def read_feed(stores: FeedStores, *, images: Images, each: Each) -> pa.Table:
    """Read the changes that the plan of the stores names; Refused if one of its snapshots has expired since."""
    _check_columns(stores, images)
    plan = stores.plan
    if each is Each.NET:
        parts = [_compare(stores, plan.since, plan.until, _list_changed_keys(stores))]
    else:
        parts = [_read_segment(stores, segment) for segment in plan.segments]
    layout = _lay_out_both if images is Images.BOTH else _lay_out_after
    tables = [layout(stores, part) for part in parts]
    return pa.concat_tables(tables) if tables else layout(stores, _no_moves(stores))


def _check_columns(stores: FeedStores, images: Images) -> None:
    shown = stores.keys if images is Images.BOTH else stores.plan.columns
    if clash := {*shown} & {*OWN_COLUMNS, BEFORE, AFTER}:
        raise Invalid(f"the feed has a column {min(clash)} of its own: rename the table's, or read images='both'")


def _list_changed_keys(stores: FeedStores) -> pa.Table:
    """All keys whose rows may differ."""
    plan = stores.plan
    names = [stores.target.field(key) for key in stores.keys]
    keys = [pa.schema(names).empty_table()]
    if plan.appends:
        keys.append(stores.appended.select(stores.keys))
    if plan.base_known:
        keys += [stores.read_changed_keys(commit.parent_id, commit.snapshot_id) for commit in plan.direct]
    else:
        keys.append(stores.read_changed_keys(plan.since.base_snapshot_id, plan.until.base_snapshot_id))
    return pa.concat_tables(keys)


def _read_segment(stores: FeedStores, segment: FeedSegment) -> Moves:
    first, last = segment.since.version, segment.until.version
    appends = [commit for commit in stores.plan.appends if first < commit.version <= last]
    if segment.direct:
        keys = [stores.read_changed_keys(segment.since.base_snapshot_id, segment.until.base_snapshot_id)]
        keys += [stores.read_appended(appends).select(stores.keys)] if appends else []
        return _compare(stores, segment.since, segment.until, pa.concat_tables(keys))
    if not appends:
        return _no_moves(stores)
    changes = stores.read_appended(appends)
    state = stores.read_state(segment.since, changes)
    ordered = changes.take(pc.sort_indices(changes, sort_keys=[(ROW_ID, "ascending")]))
    followed = (_follow_partial if stores.plan.partial else _follow_whole)(stores, segment, state, ordered)
    versions = {commit.sequence_number: (commit.version, commit.committed_at) for commit in appends}
    numbers = ordered[SEQUENCE].take(pa.array(followed.places, pa.int64())).to_pylist()
    marks = [versions[number] for number in numbers]
    return Moves(
        before_rows=followed.rows,
        after_rows=followed.rows,
        before=followed.before,
        after=followed.after,
        versions=pa.array([version for version, _ in marks], pa.int64()),
        times=pa.array([at for _, at in marks], pa.timestamp("us", "UTC")),
    )


def _follow_partial(stores: FeedStores, _segment: FeedSegment, state: pa.Table, changes: pa.Table) -> FollowedRows:
    return follow_changes(state, changes, stores.keys, stores.fold_rows)


def _follow_whole(stores: FeedStores, segment: FeedSegment, state: pa.Table, changes: pa.Table) -> FollowedRows:
    steps = _Steps(stores.keys, stores.plan.sequence_field, insert_only=stores.plan.insert_only)
    steps.begin(state, stores.read_store_changes(segment.since) if stores.plan.sequence_field else None)
    before, after, places = steps.follow(changes, offset=len(state))
    rows = pa.concat_tables([state, changes.select(stores.plan.columns)])
    return FollowedRows(rows=rows, before=before, after=after, places=places)


class _Steps:
    """Follows each key from its row at the start through its changes."""

    def __init__(self, keys: Sequence[str], sequence_field: str | None, *, insert_only: bool) -> None:
        self._keys = keys
        self._insert_only = insert_only
        self._sequence_field = sequence_field
        self._rows: dict[tuple[Any, ...], list[int]] = defaultdict(list)
        self._highest: dict[tuple[Any, ...], Any] = {}

    def begin(self, state: pa.Table, stored: pa.Table | None) -> None:
        """Take the rows at the start; a key without a row has the highest value of the deletes that are stored."""
        for place, key in enumerate(self._list_keys(state)):
            self._rows[key].append(place)
        if stored is None or self._sequence_field is None:
            return
        deletes = stored.filter(pc.equal(stored[OP], "D"))
        for key, value in zip(self._list_keys(state), state[self._sequence_field].to_pylist(), strict=True):
            self._raise_to(key, value)
        for key, value in zip(self._list_keys(deletes), deletes[self._sequence_field].to_pylist(), strict=True):
            if key not in self._rows:
                self._raise_to(key, value)

    def follow(self, changes: pa.Table, *, offset: int) -> tuple[list[int], list[int], list[int]]:
        """The places of the rows before and after each change that took effect, and its place among the changes."""
        before, after, places = list[int](), list[int](), list[int]()
        values = (
            changes[self._sequence_field].to_pylist() if self._sequence_field is not None else [None] * len(changes)
        )
        rows = zip(self._list_keys(changes), changes[OP].to_pylist(), values, strict=True)
        for place, (key, op, value) in enumerate(rows):
            if self._sequence_field is not None and not self._outranks(key, value):
                continue
            if self._insert_only and (op == "D" or key in self._rows):
                continue
            # Rows of files that Hive wrote may share a key: the change replaces all of them.
            *others, was = self._rows.pop(key, None) or [-1]
            now = -1 if op == "D" else place + offset
            if now >= 0:
                self._rows[key] = [now]
            moves = [*((other, -1) for other in others), *([(was, now)] if was >= 0 or now >= 0 else [])]
            before += [move[0] for move in moves]
            after += [move[1] for move in moves]
            places += [place] * len(moves)
        return before, after, places

    def _outranks(self, key: tuple[Any, ...], value: Any) -> bool:
        """Whether a change takes effect (docs/protocols.md, rule 1.2)."""
        highest = self._highest.get(key)
        if highest is not None and (value is None or value < highest):
            return False
        self._highest[key] = value
        return True

    def _raise_to(self, key: tuple[Any, ...], value: Any) -> None:
        highest = self._highest.get(key)
        if highest is None or (value is not None and value > highest):
            self._highest[key] = value

    def _list_keys(self, rows: pa.Table) -> list[tuple[Any, ...]]:
        return list(zip(*(column.to_pylist() for column in select_keys(rows, self._keys).columns), strict=True))


def _compare(stores: FeedStores, since: FeedVersion, until: FeedVersion, keys: pa.Table) -> Moves:
    """The net changes of these keys between two versions."""
    if not len(keys):
        return _no_moves(stores)
    first, last = stores.read_state(since, keys), stores.read_state(until, keys)
    before, after = _pair_rows(first, last, stores.keys)
    count = len(before)
    return Moves(
        before_rows=first,
        after_rows=last,
        before=before,
        after=after,
        versions=pa.repeat(pa.scalar(until.version, pa.int64()), count),
        times=pa.repeat(pa.scalar(until.committed_at, pa.timestamp("us", "UTC")), count),
    )


def _pair_rows(first: pa.Table, last: pa.Table, keys: Sequence[str]) -> tuple[list[int], list[int]]:
    """The places of rows that differ, with those of the same key side by side.

    Rows of files that Hive wrote may share a key. Equal ones cancel out, one by one.
    """
    left, right = (
        select_keys(rows, keys).append_column(name, number_rows(len(rows)))
        for rows, name in ((first, "b"), (last, "a"))
    )
    names = left.column_names[:-1]
    joined = left.join(right, names, join_type="full outer").select(["b", "a"])
    same = _find_equal(first, last, joined)
    if (
        len(joined)
        == len(pc.unique(joined["b"].drop_null())) + joined["b"].null_count
        == (len(pc.unique(joined["a"].drop_null())) + joined["a"].null_count)
    ):
        differing = joined.filter(pc.invert(same))
        return _places(differing["b"]), _places(differing["a"])
    return _pair_repeated(joined, same.to_pylist())


def _pair_repeated(joined: pa.Table, same: Sequence[bool]) -> tuple[list[int], list[int]]:
    """Pair rows where keys repeat: each row once, equal rows with equal rows first."""
    pairs = list(zip(_places(joined["b"]), _places(joined["a"]), same, strict=True))
    used_before, used_after = set[int](), set[int]()
    kept = list[tuple[int, int]]()
    for wants_equal in (True, False):
        for was, now, is_same in pairs:
            free = (was < 0 or was not in used_before) and (now < 0 or now not in used_after)
            if free and is_same is wants_equal:
                used_before.add(was)
                used_after.add(now)
                if not is_same:
                    kept.append((was, now))
    kept += [(was, -1) for was in {was for was, _, _ in pairs if was >= 0} - used_before]
    kept += [(-1, now) for now in {now for _, now, _ in pairs if now >= 0} - used_after]
    return [was for was, _ in kept], [now for _, now in kept]


def _find_equal(first: pa.Table, last: pa.Table, joined: pa.Table) -> pa.Array:
    """Whether both rows of a pair are there and equal. Null equals null, and NaN equals NaN."""
    equal = pc.and_(joined["b"].is_valid(), joined["a"].is_valid())
    for name in first.column_names:
        before, after = first[name].take(joined["b"]), last[name].take(joined["a"])
        equal = pc.and_(equal, _equal_values(before, after))
    return equal.combine_chunks()


def _equal_values(before: pa.ChunkedArray, after: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_nested(before.type) or isinstance(before.type, pa.BaseExtensionType):
        pairs = zip(before.to_pylist(), after.to_pylist(), strict=True)
        return pa.array([repr(was) == repr(now) for was, now in pairs], pa.bool_())
    both_null = pc.and_(before.is_null(nan_is_null=True), after.is_null(nan_is_null=True))
    same_null = pc.equal(before.is_null(), after.is_null())
    return pc.or_(pc.and_(both_null, same_null), pc.fill_null(pc.equal(before, after), False))


def _places(column: pa.ChunkedArray) -> list[int]:
    return [int(place) for place in pc.fill_null(column, -1).to_pylist()]


def _no_moves(stores: FeedStores) -> Moves:
    empty = stores.target.empty_table()
    times = pa.array([], pa.timestamp("us", "UTC"))
    return Moves(
        before_rows=empty, after_rows=empty, before=[], after=[], versions=pa.array([], pa.int64()), times=times
    )


def _describe(moves: Moves) -> dict[str, pa.Array]:
    pairs = zip(moves.before, moves.after, strict=True)
    kinds = [INSERT if was < 0 else DELETE if now < 0 else UPDATE for was, now in pairs]
    return {CHANGE_TYPE: pa.array(kinds, pa.string()), VERSION: moves.versions, COMMITTED_AT: moves.times}


def _lay_out_after(stores: FeedStores, moves: Moves) -> pa.Table:
    """The row after each change; of a deleted row, the row before."""
    rows = pa.concat_tables([moves.before_rows, moves.after_rows])
    start = len(moves.before_rows)
    pairs = zip(moves.before, moves.after, strict=True)
    shown = rows.take(pa.array([was if now < 0 else now + start for was, now in pairs], pa.int64()))
    return pa.table({**_describe(moves), **{name: shown[name] for name in stores.plan.columns}})


def _lay_out_both(stores: FeedStores, moves: Moves) -> pa.Table:
    """The key, and the rows before and after each change as structs."""
    before, after = _take_rows(moves.before_rows, moves.before), _take_rows(moves.after_rows, moves.after)
    keyed = _lay_out_after(stores, moves).select([*OWN_COLUMNS, *stores.keys])
    return pa.table(
        {
            **dict(zip(keyed.column_names, keyed.columns, strict=True)),
            BEFORE: _to_struct(before, moves.before),
            AFTER: _to_struct(after, moves.after),
        }
    )


def _take_rows(rows: pa.Table, places: Sequence[int]) -> pa.Table:
    return rows.take(pa.array([None if place < 0 else place for place in places], pa.int64()))


def _to_struct(rows: pa.Table, places: Sequence[int]) -> pa.Array:
    arrays = [_combine(column) for column in rows.columns]
    mask = pa.array([place < 0 for place in places], pa.bool_())
    return pa.StructArray.from_arrays(arrays, fields=[f.with_nullable(True) for f in rows.schema], mask=mask)


def _combine(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined
