"""What may happen in the explored worlds of the image model."""

from __future__ import annotations

from tests.models.image_steps import Scope
from tests.models.image_streams import Checkpoint
from tests.models.images import Change, Row

KINDS = (
    "batch",
    "build",
    "read",
    "older",
    "write",
    "direct",
    "merge",
    "clean",
    "compact",
    "late compact",
    "remove",
    "expire",
    "orphans",
    "crash",
    "rollback",
    "combine",
    "forget",
)


def budget(**more: int) -> tuple[tuple[str, int], ...]:
    counts = {kind.replace("_", " "): count for kind, count in more.items()}
    return tuple((kind, counts.get(kind, 0)) for kind in KINDS)


BATCHES = (
    (Change("k", "p", "a", "I"),),
    (Change("k", "q", "b", "U"), Change("m", "p", "c", "I")),
    (Change("k", "q", "", "D"),),
)
UPSERT, DELETE = (Change("k", "p", "x", "U"),), (Change("k", "p", "", "D"),)
ROW = (Row("n", "p", "y"),)
PENDING_KEY = (Row("m", "p", "y"),)
TWO_ROWS = (
    (Change("k", "p", "a", "I"), Change("m", "p", "b", "I")),
    (Change("k", "p", "", "D"),),
    (Change("m", "p", "", "D"),),
)
CHECKPOINTS = (
    Checkpoint(("k", "m"), (Change("k", "p", "s", "U"),)),
    Checkpoint(("k",)),
)

SCOPES = {
    "builds and merges": Scope(BATCHES, budget=budget(batch=3, build=3, read=1, merge=1, crash=1)),
    "growing": Scope(BATCHES, budget=budget(batch=3, build=3, read=1, late_compact=1)),
    "compaction": Scope(BATCHES, budget=budget(batch=3, build=2, read=1, compact=1, late_compact=1, clean=1)),
    "rows appended to base": Scope(BATCHES[:2], direct=ROW, budget=budget(batch=2, build=3, read=1, direct=1, merge=2)),
    "removal": Scope(
        BATCHES[:2], budget=budget(batch=2, build=3, read=1, merge=1, remove=2, expire=1, orphans=1, crash=1)
    ),
    "layers and removal": Scope(BATCHES[:2], budget=budget(batch=2, build=2, read=1, remove=2)),
    "adoption": Scope(
        BATCHES[:2], direct=PENDING_KEY, budget=budget(batch=2, direct=1, merge=2, clean=1, crash=1, orphans=1)
    ),
    "adoption of old positions": Scope(TWO_ROWS, budget=budget(batch=3, merge=3)),
    "adoption and compaction": Scope(BATCHES, budget=budget(batch=3, merge=2, compact=1, clean=1)),
    "adoption and removal": Scope(
        BATCHES[:2], budget=budget(batch=2, build=1, merge=2, clean=1, remove=1, expire=1, orphans=1)
    ),
    "adoption and rollback": Scope(BATCHES[:2], budget=budget(batch=2, merge=2, clean=1, rollback=1)),
    "large images": Scope(
        BATCHES[:1], direct=ROW, budget=budget(batch=1, direct=1, build=2, older=1, merge=1, expire=1, crash=1)
    ),
    "statements": Scope(BATCHES[:2], (UPSERT, DELETE), budget=budget(batch=2, build=3, read=1, write=2, crash=1)),
    "streams": Scope(
        BATCHES[:2], budget=budget(batch=2, build=1, read=1, merge=1, crash=2, combine=1), checkpoints=CHECKPOINTS
    ),
    "streams and expiry": Scope(BATCHES[:1], budget=budget(batch=1, crash=2, forget=1), checkpoints=CHECKPOINTS),
}
LONG = budget(
    batch=3, build=9, read=6, older=2, write=6, direct=1, merge=4, clean=2, compact=2, late_compact=1, remove=4,
    expire=3, orphans=2, crash=3, rollback=1, forget=1,
)  # fmt: skip
EVERYTHING = Scope(BATCHES, (UPSERT, DELETE), ROW, LONG, CHECKPOINTS)
