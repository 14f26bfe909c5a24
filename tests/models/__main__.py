"""`python -m tests.models [STATES]`: explore all models further than the tests do, and print what was found."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tests.models import (
    at_read,
    backfills,
    deletion,
    hive,
    hive_steps,
    image_scopes,
    image_steps,
    images,
    insert_only,
    jobs,
    keyed,
    partial,
    pipeline_states,
    pipelines,
    quarantine,
    streams,
)
from tests.models.explore import Exploration, exhaust, walk
from tests.models.keyed_scopes import LONG_SCOPES, SCOPES


def explore_keyed(states: int) -> Iterator[tuple[str, Exploration]]:
    rules = keyed.Rules()
    for name, scope in SCOPES.items():
        steps, check = keyed.keyed_steps(rules, scope), keyed.check_with(rules, scope)
        yield f"keyed, {name}", exhaust(scope.start(), steps, check, states)
    for name, scope in LONG_SCOPES.items():
        steps, check = keyed.keyed_steps(rules, scope), keyed.check_with(rules, scope)
        yield f"keyed, random, {name}", walk(scope.start(), steps, check, histories=states // 10, length=40)


def explore_partial(states: int) -> Iterator[tuple[str, Exploration]]:
    steps, check = partial.partial_steps(partial.Rules()), partial.check_with(partial.Rules())
    yield "partial columns", exhaust(partial.World(), steps, check, states)
    many = partial.World(left=(("commit", 9), ("job", 7), ("again", 1)))
    yield "partial columns, random", walk(many, steps, check, histories=states // 4, length=30)


def explore_insert_only(states: int) -> Iterator[tuple[str, Exploration]]:
    rules = insert_only.Rules()
    steps, check = insert_only.insert_only_steps(rules), insert_only.check_with(rules)
    yield "insert-only", exhaust(insert_only.World(), steps, check, states)
    many = insert_only.World(left=(("commit", 9), ("job", 7)))
    yield "insert-only, random", walk(many, steps, check, histories=states // 4, length=30)


def explore_at_read(states: int) -> Iterator[tuple[str, Exploration]]:
    steps = at_read.at_read_steps(at_read.Rules())
    for kind in ("upserts", "insert-only"):
        start = at_read.World(insert_only=kind == "insert-only")
        yield f"time to live at read, {kind}", exhaust(start, steps, at_read.CHECK, states)


def explore_jobs(states: int) -> Iterator[tuple[str, Exploration]]:
    left = jobs.budget(expire=4, lose=4, crash=3, cancel=1, trim=2, lease=5)
    many = jobs.World(optimizers=(jobs.Optimizer(),) * 3, left=left)
    for makes_snapshot in (True, False):
        steps = jobs.job_steps(jobs.Rules(), makes_snapshot=makes_snapshot)
        kind = "with a snapshot" if makes_snapshot else "without a snapshot"
        yield f"job {kind}", exhaust(jobs.World(left=jobs.budget()), steps, jobs.CHECK, states)
        yield f"job {kind}, random", walk(many, steps, jobs.CHECK, histories=states // 4, length=60)
    steps_of_deletion = deletion.deletion_steps(deletion.Rules())
    yield "expiry and orphan removal", exhaust(deletion.World(), steps_of_deletion, deletion.check, states)


def explore_hive(states: int) -> Iterator[tuple[str, Exploration]]:
    steps, check = hive_steps.hive_steps(hive.Rules()), hive_steps.check_with(hive.Rules())
    for opening in hive_steps.OPENINGS:
        yield f"hive, {opening}", exhaust(hive_steps.start(opening), steps, check, states)
    left = hive.budget(hive=4, late=2, firn=3, tick=3, sync=4, merge=2, publish=3, clean=4)
    yield "hive, random", walk(hive.World(left=left), steps, check, histories=states // 4, length=40)


def explore_images(states: int) -> Iterator[tuple[str, Exploration]]:
    for name, scope in image_scopes.SCOPES.items():
        steps = image_steps.ImageModel(images.Rules(), scope).steps
        yield f"image, {name}", exhaust(scope.start(), steps, images.check, states)
    everything = image_scopes.EVERYTHING
    steps = image_steps.ImageModel(images.Rules(), everything).steps
    yield "image, random", walk(everything.start(), steps, images.check, histories=states // 4, length=60)


def explore_streams(states: int) -> Iterator[tuple[str, Exploration]]:
    steps = streams.stream_steps(streams.Rules())
    yield "stream", exhaust(streams.World(left=streams.budget()), steps, streams.CHECK, states)
    left = streams.budget(produce=6, register=6, lose=4, crash=3, other=3, rollback=2, expire=3, overtake=3)
    many = streams.World(copies=(streams.Copy(),) * 3, left=left)
    yield "stream, random", walk(many, steps, streams.CHECK, histories=states // 4, length=60)
    steps_of_quarantine = quarantine.quarantine_steps(quarantine.Rules())
    start = quarantine.World(left=quarantine.budget(retry=2, drop=1))
    yield "quarantine", exhaust(start, steps_of_quarantine, quarantine.CHECK, states)


def explore_pipelines(states: int) -> Iterator[tuple[str, Exploration]]:
    steps = pipelines.pipeline_steps(pipeline_states.Rules())
    for event in pipelines.EVENTS:
        start = pipeline_states.World(left=pipelines.budget(**{event: 1}))
        yield f"pipeline, {event}", exhaust(start, steps, pipelines.CHECK, states)
    left = pipelines.budget(**{"change": 6, "take": 9, "lose": 4, "crash": 3, "lapse": 4, **pipelines.EVENTS})
    many = pipeline_states.World(copies=(pipeline_states.Copy(),) * 3, left=left)
    yield "pipeline, random", walk(many, steps, pipelines.CHECK, histories=states // 4, length=90)


def explore_backfills(states: int) -> Iterator[tuple[str, Exploration]]:
    rules = backfills.Rules()
    steps, check = backfills.backfill_steps(rules), backfills.check_with(rules)
    for event in backfills.EVENTS:
        yield f"backfill, {event}", exhaust(backfills.build(**{event: 1, "resume": 1}), steps, check, states)
    left = backfills.budget(**{"change": 6, "run": 12, "crash": 3, "damage": 3, **dict.fromkeys(backfills.EVENTS, 1)})
    many = backfills.World(copies=(backfills.Copy(),) * 3, left=left)
    yield "backfill, random", walk(many, steps, check, histories=states // 4, length=90)


def main(states: int) -> int:
    violations = 0
    keyed_tables = (explore_keyed, explore_partial, explore_insert_only, explore_at_read)
    tables = (*keyed_tables, explore_images, explore_jobs, explore_hive)
    for explore in (*tables, explore_streams, explore_pipelines, explore_backfills):
        for name, seen in explore(states):
            sys.stdout.write(f"{name}: {seen}\n")
            sys.stdout.flush()
            violations += len(seen.violations)
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 30_000))
