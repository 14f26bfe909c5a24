"""Model of a keyed table: base, change store and watermark (docs/protocols.md#keyed-tables).

It merges, writes to base directly, cleans, compacts, changes the schema and rolls back. The oracle replays the log: a
direct write to base lies after the changes that were merged when it was committed, and under all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tests.models.explore import Check, Steps


class Rules(NamedTuple):
    """The rules, each with the number that docs/protocols.md gives it."""

    validates_whole_table: bool = True
    """1.1: under global key scope a merge commits only if no row of base has changed since the snapshot it read."""
    compares_with_base: bool = True
    """1.2: a change counts only if its sequence value reaches that of base's row, or of a merged delete of the key."""
    keeps_merged_deletes: bool = True
    """1.2: with a sequence field a clean leaves change files that hold deletes."""
    rollback_fences: bool = True
    """1.4: rollback ends the running job, and forgets the writer batches whose snapshots leave the history."""
    rollback_keeps_schema: bool = True
    """1.4: rollback commits the old snapshots again under the current schema; it does not move refs alone."""


class Change(NamedTuple):
    key: str
    part: str
    value: str
    s: int  # sequence field
    op: str
    row_id: int = 0
    sequence: int = 0  # of the commit


Row = tuple[str, str, str, int]  # key, partition, value, sequence field
RowSet = frozenset[Row]


class File(NamedTuple):
    sequence: int  # data sequence number; a compacted file has that of the snapshot it was planned on
    rows: tuple[Change, ...]


class ChangeSnapshot(NamedTuple):
    parent: int | None
    sequence: int
    files: tuple[File, ...]
    schema: int


class BaseSnapshot(NamedTuple):
    parent: int | None
    rows: RowSet
    through: int  # the watermark
    touched: frozenset[str]
    schema: int


class Job(NamedTuple):
    kind: str
    b: int
    c: int
    through: int = 0
    touched: frozenset[str] = frozenset()
    keys: frozenset[str] = frozenset()
    rows: RowSet = frozenset()
    files: tuple[File, ...] = ()


class Appended(NamedTuple):
    sequence: int
    batch: int
    rows: tuple[Change, ...]


class DirectWrite(NamedTuple):
    watermark: int
    part: str | None
    rows: tuple[Row, ...]


Log = tuple[Appended | DirectWrite, ...]


class World(NamedTuple):
    bases: tuple[BaseSnapshot, ...] = (BaseSnapshot(None, frozenset(), 0, frozenset(), 0),)
    changes: tuple[ChangeSnapshot, ...] = (ChangeSnapshot(None, 0, (), 0),)
    b: int = 0
    c: int = 0
    next_row_id: int = 0
    schema: int = 0
    log: Log = ()
    versions: tuple[tuple[int, int, Log], ...] = ((0, 0, ()),)
    accepted: frozenset[int] = frozenset()  # batches that the table knows
    job: Job | None = None
    reader: tuple[int, int, int] | None = None
    left: tuple[tuple[str, int], ...] = ()
    error: str | None = None


class Scope(NamedTuple):
    """What may happen in a world: the batches, the direct writes, and how often each step."""

    batches: tuple[tuple[Change, ...], ...]
    direct: tuple[tuple[str | None, tuple[Row, ...]], ...] = ()
    budget: tuple[tuple[str, int], ...] = ()
    has_sequence_field: bool = False
    is_global: bool = True
    pin: str = "one transaction"
    """Rule 1.3: how a reader gets both heads; "base first" and "change first" read them one after the other."""

    def start(self) -> World:
        return World(left=self.budget)


# --- the view and its oracle -----------------------------------------------------------------------------------------


def read_view(
    base: BaseSnapshot, change: ChangeSnapshot, rules: Rules, scope: Scope, upto: int | None = None
) -> RowSet:
    rows = [row for file in change.files for row in file.rows]
    pending = [r for r in rows if r.sequence > base.through and (upto is None or r.sequence <= upto)]
    newest = {r.key: r for r in sorted(pending, key=lambda r: (r.s if scope.has_sequence_field else 0, r.row_id))}
    if scope.has_sequence_field and rules.compares_with_base:
        least: dict[str, int] = {}
        for row in rows:
            if row.sequence <= base.through and row.op == "D":
                least[row.key] = max(least.get(row.key, 0), row.s)
        least |= {key: s for key, _, _, s in base.rows}
        newest = {key: row for key, row in newest.items() if row.s >= least.get(key, 0)}
    kept = {row for row in base.rows if row[0] not in newest}
    return frozenset(kept | {(r.key, r.part, r.value, r.s) for r in newest.values() if r.op != "D"})


def replay_log(log: Log, scope: Scope) -> RowSet:
    rows: dict[str, Row] = {}
    deleted: dict[str, int] = {}
    for entry in sorted(log, key=lambda e: (e[0], isinstance(e, DirectWrite))):
        if isinstance(entry, DirectWrite):
            rows = {key: row for key, row in rows.items() if row[1] != entry.part}
            rows |= {row[0]: row for row in entry.rows}
            continue
        for change in entry.rows:
            least = rows[change.key][3] if change.key in rows else deleted.get(change.key, 0)
            if change.op == "D":
                deleted[change.key] = max(deleted.get(change.key, 0), change.s)
            if not scope.has_sequence_field or change.s >= least:
                rows.pop(change.key, None)
                if change.op != "D":
                    rows[change.key] = (change.key, change.part, change.value, change.s)
    return frozenset(rows.values())


def check_with(rules: Rules, scope: Scope) -> Check[World]:
    def check(world: World) -> str | None:
        base, change = world.bases[world.b], world.changes[world.c]
        if world.error:
            return world.error
        if len({row[0] for row in base.rows}) < len(base.rows):
            return "base has two live rows of one key"
        if base.parent is not None and base.through < world.bases[base.parent].through:
            return "the watermark went down"
        if base.schema != world.schema or change.schema != world.schema:
            return "the view pins a snapshot of an old schema"
        if read_view(base, change, rules, scope) != replay_log(world.log, scope):
            return "the view differs from the replay"
        return None

    return check


# --- commits ---------------------------------------------------------------------------------------------------------


def _remember(world: World) -> World:
    return world._replace(versions=(*world.versions, (world.b, world.c, world.log)))


def _commit_base(
    world: World,
    rows: Iterable[Row],
    touched: Iterable[str] = (),
    through: int | None = None,
    parent: int | None = None,
) -> World:
    parent = world.b if parent is None else parent
    watermark = world.bases[parent].through if through is None else through
    snapshot = BaseSnapshot(parent, frozenset(rows), watermark, frozenset(touched), world.schema)
    return world._replace(bases=(*world.bases, snapshot), b=len(world.bases))


def _next_sequence(world: World) -> int:
    return max(snapshot.sequence for snapshot in world.changes) + 1


def _commit_change(world: World, files: Iterable[File], parent: int | None = None) -> World:
    parent = world.c if parent is None else parent
    snapshot = ChangeSnapshot(parent, _next_sequence(world), tuple(files), world.schema)
    return world._replace(changes=(*world.changes, snapshot), c=len(world.changes))


def _append(world: World, batch: int, changes: tuple[Change, ...]) -> World:
    sequence = _next_sequence(world)
    rows = tuple(r._replace(row_id=world.next_row_id + i, sequence=sequence) for i, r in enumerate(changes))
    after = _commit_change(world, (*world.changes[world.c].files, File(sequence, rows)))
    return _remember(
        after._replace(
            next_row_id=world.next_row_id + len(rows),
            accepted=world.accepted | {batch},
            log=(*world.log, Appended(sequence, batch, rows)),
        )
    )


def _snapshots_since(world: World, old: int) -> list[BaseSnapshot] | None:
    """The base snapshots after `old` up to the head; None when the head does not descend from it."""
    snapshots: list[BaseSnapshot] = []
    current: int | None = world.b
    while current is not None and current != old:
        snapshots.append(world.bases[current])
        current = world.bases[current].parent
    return snapshots if current == old else None


# --- jobs ------------------------------------------------------------------------------------------------------------


def _plan_jobs(world: World, rules: Rules, scope: Scope) -> Iterator[tuple[str, Job]]:
    base, change = world.bases[world.b], world.changes[world.c]
    yield from _plan_merges(world, rules, scope)
    keeps_deletes = scope.has_sequence_field and rules.keeps_merged_deletes
    merged = [file for file in change.files if file.sequence <= base.through]
    removable = tuple(f for f in merged if not (keeps_deletes and any(r.op == "D" for r in f.rows)))
    if removable:
        yield "clean", Job("clean", world.b, world.c, files=removable)
    if len(change.files) > 1:
        yield "compact", Job("compact", world.b, world.c, files=change.files)


def _plan_merges(world: World, rules: Rules, scope: Scope) -> Iterator[tuple[str, Job]]:
    base, change = world.bases[world.b], world.changes[world.c]
    pending = [row for file in change.files for row in file.rows if row.sequence > base.through]
    for upto in sorted({row.sequence for row in pending}):
        due = [row for row in pending if row.sequence <= upto]
        keys, parts = frozenset(row.key for row in due), {row.part for row in due}
        merged = read_view(base, change, rules, scope, upto=upto)
        if scope.is_global:
            parts |= {row[1] for row in base.rows if row[0] in keys}
        through = change.sequence if upto == max(row.sequence for row in pending) else upto
        of_parts, of_keys = (
            frozenset(r for r in merged if r[1] in parts),
            frozenset(r for r in merged if r[0] in keys),
        )
        yield "merge", Job("rewrite", world.b, world.c, through, frozenset(parts), keys, of_parts)
        yield "merge", Job("vectors", world.b, world.c, upto, frozenset(parts), keys, of_keys)


def _finish(world: World, job: Job, rules: Rules, scope: Scope) -> World | None:
    """The world after the job's commit, or None when it is refused."""
    files = world.changes[world.c].files
    world = world._replace(job=None)
    if job.kind == "clean":  # a delete of files checks nothing, and is retried on the new head
        return _remember(_commit_change(world, (file for file in files if file not in job.files)))
    if job.kind == "compact":
        if not set(job.files) <= set(files):
            return None
        packed = File(world.changes[job.c].sequence, tuple(row for file in job.files for row in file.rows))
        return _remember(_commit_change(world, (packed, *(file for file in files if file not in job.files))))
    return _finish_merge(world, job, rules, scope)


def _finish_merge(world: World, job: Job, rules: Rules, scope: Scope) -> World | None:
    base, between = world.bases[world.b], _snapshots_since(world, job.b)
    whole_table = job.kind == "vectors" or (rules.validates_whole_table and scope.is_global)
    if between is None or job.through < base.through:
        return None
    if any(s.touched if whole_table else s.touched & job.touched for s in between):
        return None
    if job.kind == "rewrite":
        kept = {row for row in base.rows if row[1] not in job.touched}
    else:
        kept = {row for row in base.rows if row[0] not in job.keys}
    return _remember(_commit_base(world, kept | job.rows, job.touched, job.through))


# --- steps -----------------------------------------------------------------------------------------------------------


class KeyedModel:
    def __init__(self, rules: Rules, scope: Scope) -> None:
        self.rules, self.scope = rules, scope

    def steps(self, world: World) -> Iterator[tuple[str, World]]:
        left = dict(world.left)
        if left["batch"]:
            yield from self._appends(world)
        if left["direct"]:
            yield from self._direct_writes(world)
        yield from self._jobs(world, left)
        if left["alter"]:
            after = _spend(world, "alter")._replace(schema=world.schema + 1)
            after = _commit_base(after, world.bases[world.b].rows)
            yield "alter both stores", _remember(_commit_change(after, world.changes[world.c].files))
        if left["rollback"]:
            yield from self._rollbacks(world)
        if left["pin"] and self.scope.pin != "one transaction":
            yield from self._reads(world)

    def _appends(self, world: World) -> Iterator[tuple[str, World]]:
        for number, changes in enumerate(self.scope.batches):
            if number not in world.accepted:
                yield f"append {number}: {describe(changes)}", _append(_spend(world, "batch"), number, changes)
            elif not any(isinstance(entry, Appended) and entry.batch == number for entry in world.log):
                lost = world._replace(error="an acknowledged batch is not in the table")
                yield f"append {number} again: refused as a duplicate", lost

    def _direct_writes(self, world: World) -> Iterator[tuple[str, World]]:
        base = world.bases[world.b]
        for part, rows in self.scope.direct:
            elsewhere = {row[0] for row in base.rows if row[1] != part}
            if elsewhere & {row[0] for row in rows}:
                continue
            kept = {row for row in base.rows if row[1] != part}
            parts = {row[1] for row in rows} | ({part} if part is not None else set())
            after = _commit_base(_spend(world, "direct"), kept | set(rows), parts)
            log = (*world.log, DirectWrite(base.through, part, rows))
            name = "append" if part is None else f"overwrite {part}"
            yield f"direct {name} {[row[:3] for row in rows]}", _remember(after._replace(log=log))

    def _jobs(self, world: World, left: dict[str, int]) -> Iterator[tuple[str, World]]:
        job = world.job
        if job is None:
            for kind, planned in _plan_jobs(world, self.rules, self.scope):
                if left[kind]:
                    through = f" (through {planned.through})" if planned.through else ""
                    yield f"{planned.kind} starts{through}", _spend(world, kind)._replace(job=planned)
            return
        after = _finish(world, job, self.rules, self.scope)
        yield f"{job.kind} " + ("commits" if after else "is refused"), after or world._replace(job=None)
        if left["crash"]:
            yield f"{job.kind} crashes", _spend(world, "crash")._replace(job=None)
            if after:
                yield f"{job.kind} commits, the answer is lost", _spend(after, "crash")

    def _rollbacks(self, world: World) -> Iterator[tuple[str, World]]:
        for b, c, log in dict.fromkeys(world.versions[:-1]):
            if (b, c) == (world.b, world.c):
                continue
            after = _spend(world, "rollback")._replace(b=b, c=c, log=log)
            if self.rules.rollback_keeps_schema:
                after = _commit_base(after, world.bases[b].rows, parent=b)
                after = _commit_change(after, world.changes[c].files, parent=c)
            if self.rules.rollback_fences:
                batches = frozenset(entry.batch for entry in log if isinstance(entry, Appended))
                after = after._replace(job=None, accepted=batches)
            yield f"rollback to (B{b}, C{c})", _remember(after)

    def _reads(self, world: World) -> Iterator[tuple[str, World]]:
        if world.reader is None:
            started = world._replace(reader=(world.b, world.c, len(world.versions) - 1))
            yield f"a reader resolves {self.scope.pin}", started
            return
        b, c, version = world.reader
        pair = (b, world.c) if self.scope.pin == "base first" else (world.b, c)
        rows = read_view(world.bases[pair[0]], world.changes[pair[1]], self.rules, self.scope)
        possible = {replay_log(log, self.scope) for _, _, log in world.versions[version:]}
        error = None if rows in possible else "a reader mixes two states"
        read = _spend(world, "pin")._replace(reader=None, error=error)
        yield "the reader resolves the other store and reads", read


def keyed_steps(rules: Rules, scope: Scope) -> Steps[World]:
    return KeyedModel(rules, scope).steps


def describe(changes: Iterable[Change]) -> str:
    return ",".join(f"{c.op} {c.key}->{c.part}={c.value} s{c.s}" for c in changes)


def _spend(world: World, kind: str) -> World:
    return world._replace(left=tuple((k, n - (k == kind)) for k, n in world.left))
