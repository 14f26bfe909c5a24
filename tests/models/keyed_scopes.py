"""What may happen in the explored worlds of the keyed model: small enough to be seen whole, or nearly."""

from __future__ import annotations

from tests.models.keyed import Change, Scope


def budget(**more: int) -> tuple[tuple[str, int], ...]:
    none = {
        "batch": 3,
        "merge": 2,
        "direct": 0,
        "clean": 0,
        "compact": 0,
        "alter": 0,
        "rollback": 0,
        "pin": 0,
        "crash": 0,
    }
    return tuple(({"batch": 3, "merge": 2} | none | more).items())


def insert(key: str, part: str, value: str, s: int = 0) -> Change:
    return Change(key, part, value, s, "I")


def update(key: str, part: str, value: str, s: int = 0) -> Change:
    return Change(key, part, value, s, "U")


def delete(key: str, part: str, s: int = 0) -> Change:
    return Change(key, part, "", s, "D")


PLAIN = (
    (insert("k", "p", "a"),),
    (update("k", "q", "b"), insert("m", "p", "c")),
    (delete("k", "q"),),
)
ORDERED = (
    (insert("k", "p", "a", 2),),
    (update("k", "q", "b", 1),),
    (delete("k", "q", 3), update("m", "p", "d", 2)),
    (update("k", "p", "e", 3),),
)
ONE_PARTITION = (
    (insert("k", "p", "a"),),
    (update("k", "p", "b"), insert("m", "q", "c")),
    (delete("k", "p"),),
)
DIRECT = ((None, (("k", "r", "x", 0),)), ("p", (("n", "p", "y", 0),)), ("q", ()))
DIRECT_ORDERED = ((None, (("k", "r", "x", 2),)), ("p", ()))
LATE_AFTER_DELETE = ((delete("k", "p", 3),), (insert("k", "p", "late", 1),))

SCOPES = {
    "merges": Scope(PLAIN, budget=budget(merge=3, crash=1)),
    "direct writes": Scope(PLAIN, DIRECT, budget(direct=2)),
    "clean and compact": Scope(PLAIN, budget=budget(clean=2, compact=1, crash=1)),
    "schema and rollback": Scope(PLAIN, budget=budget(clean=1, alter=1, rollback=1)),
    "two rollbacks": Scope(PLAIN[:2], budget=budget(compact=1, clean=1, rollback=2)),
    "sequence field": Scope(ORDERED, budget=budget(batch=4, clean=1, compact=1), has_sequence_field=True),
    "sequence field, direct writes": Scope(ORDERED, DIRECT_ORDERED, budget(direct=1, clean=1), has_sequence_field=True),
    "late change after a delete": Scope(
        LATE_AFTER_DELETE, budget=budget(batch=2, clean=1, compact=1), has_sequence_field=True
    ),
    "partition scope": Scope(
        ONE_PARTITION, ((None, (("k", "p", "x", 0),)), ("q", ())), budget(direct=2, clean=1), is_global=False
    ),
    "pins": Scope(PLAIN, budget=budget(merge=1, clean=1, pin=1)),
}
LONG = budget(batch=8, merge=5, direct=3, clean=3, compact=2, alter=2, rollback=2, crash=2)
LONG_SCOPES = {
    "everything, sequence field": Scope(ORDERED + PLAIN[1:2], DIRECT, LONG, has_sequence_field=True),
    "everything": Scope(ORDERED + PLAIN[1:2], DIRECT, LONG),
}
