"""Random histories of a keyed table over several Hive partitions, and each rule's history that breaks without it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.catalog.hive.rebuild_model import Table
from tests.catalog.hive.rebuild_values import Row, Rules

KEYS = st.sampled_from("abc")
PARTS = st.sampled_from("pqr")
STEPS = st.one_of(
    st.tuples(st.just("add"), PARTS, st.sets(KEYS, min_size=1)),
    st.tuples(st.just("overwrite"), PARTS, st.sets(KEYS)),
    st.tuples(st.just("remove the first file"), PARTS, st.just(set[str]())),
    st.tuples(st.just("upsert"), PARTS, st.sets(KEYS, min_size=1, max_size=1)),
    st.tuples(st.just("delete"), PARTS, st.sets(KEYS, min_size=1, max_size=1)),
    st.tuples(st.sampled_from(["merge", "sync", "time passes", "rename"]), PARTS, st.just(set[str]())),
    st.tuples(st.sampled_from(["move", "copy", "move out", "move back"]), PARTS, st.just(set[str]())),
    st.tuples(st.sampled_from(["publish", "switch"]), PARTS, st.just(set[str]())),
    st.tuples(st.sampled_from(["late add", "late overwrite", "late removal"]), PARTS, st.sets(KEYS, min_size=1)),
)
HIVE_SIDE = {"add", "overwrite", "remove the first file", "remove the last file"}
Step = tuple[str, str, set[str]]


def played(rules: Rules, *steps: Step, trusts: bool = False) -> str | None:
    """What is wrong at the end of a history; each begins with a key in each partition."""
    table = Table(rules, {"p": {"f0": {"a": 0}}, "q": {"f1": {"b": 0}}}, trusts=trusts, order=["f0", "f1"])
    table.upgrade()
    for number, (action, part, some) in enumerate(steps, 2):
        keys = promised(table, action, part, some, number) if trusts else some
        if action.startswith("late"):
            late(table, action, part, keys, number)
        elif action in {"move", "copy", "move out"}:
            moved(table, part, number, action)
        elif action == "move back":
            moved_back(table, part, number)
        elif action in HIVE_SIDE:
            hive_side(table, action, part, keys, number)
        else:
            firn_side(table, action, part, keys, number)
    return table.settle()


def promised(table: Table, action: str, part: str, keys: set[str], number: int) -> set[str]:
    """The keys of a step if Hive's side keeps its promise: what it adds is new, or was in what it overwrites.

    What was moved and is overwritten before a sync has seen it, the partition never had.
    """
    unseen = table.origins.keys() - table.baseline.get(part, {}).keys()
    there = {key for name, rows in table.hive.get(part, {}).items() if name not in unseen for key in rows}
    if action in HIVE_SIDE:
        return {key if action == "overwrite" and key in there else f"{key}{number}" for key in keys}
    added = sorted(key for key in table.view() if len(key) > 1)
    return {added[-1]} if added and keys == {"c"} else keys


def firn_side(table: Table, action: str, part: str, keys: set[str], number: int) -> None:
    match action:
        case "upsert":
            table.write(min(keys), Row(part, number))
        case "delete":
            table.write(min(keys), None)
        case "merge":
            table.merge()
        case "sync":
            table.sync()
        case "publish":
            table.merge()
            table.publish(f"p{number}")
        case "switch" if part in table.open:
            table.switch(part)
        case "time passes":
            table.time_passes()
        case "rename":
            renamed(table, part)


def renamed(table: Table, part: str) -> None:
    """One partition becomes the other, where there is none: its files are there now."""
    other = {"p": "q", "q": "p", "r": "p"}[part]
    files = table.hive.get(part, {})
    if table.hive.get(other) or not files.keys() & table.baseline.get(part, {}).keys():
        return
    table.loses(part, {*files})
    if other in table.refilling | table.seen_refilling:
        # It is taken for the rest of an overwrite, which knew no change that was given since: either side may be right.
        table.free |= {key for rows in files.values() for key in rows}
    table.hive[other] = table.hive.pop(part)
    table.olds |= files.keys()


NEXT = {"p": "q", "q": "r", "r": "p"}


def moved(table: Table, part: str, number: int, how: str) -> None:
    """Of the files that a sync has taken over the newest goes, or is copied, to where others may be already."""
    known = table.hive.get(part, {}).keys() & table.baseline.get(part, {}).keys()
    if not known:
        return
    name = max(known, key=table.order.index)
    rows = table.hive[part][name]
    if how == "copy":
        table.shows(part, {*rows.items()})
        table.copied |= {*rows.items()}
    else:
        table.loses(part, {name})
        del table.hive[part][name]
    if how == "move out":
        table.away.append((name, rows, False))
    else:
        arrived(table, NEXT[part], name, rows, number)


def moved_back(table: Table, part: str, number: int) -> None:
    """What was taken out of the table comes back, perhaps to another partition."""
    if not table.away:
        return
    name, rows, is_news = table.away.pop()
    if not (is_news and table.trusts):  # then its keys are none that are new
        arrived(table, part, name, rows, number, is_news=is_news)


def arrived(table: Table, part: str, name: str, rows: dict[str, int], number: int, *, is_news: bool = False) -> None:
    """A file that was written earlier comes under another name, with the time that it had."""
    new = f"{name}-{number}"
    table.origins[new] = table.origins.get(name, name)
    table.order.insert(table.order.index(name) + 1, new)
    if is_news:
        for key in rows:
            table.answers(part, key)
    else:
        table.olds.add(new)
    if part in table.open or part in table.refilling | table.seen_refilling:
        table.free |= rows.keys()
    table.hive.setdefault(part, {})[new] = rows


def late(table: Table, action: str, part: str, keys: set[str], number: int) -> None:
    """A writer that knew the directory before the last switch."""
    watches = [watch for watch in table.watched if watch.part == part]
    if not watches:
        return
    if action == "late removal":
        table.cleared |= {f"{part}/{name}" for name in watches[-1].files.keys() & watches[-1].listed.keys()}
        watches[-1].files.clear()  # by whoever clears up; it says nothing of any row
        return
    if action == "late overwrite":
        table.free |= {
            change.key
            for change in table.changes
            if change.seq in table.answered and change.seq > watches[-1].published
        }
        table.loses(part, {*watches[-1].files}, watches[-1])
        watches[-1].files.clear()
    for key in keys:
        table.answers(part, key, watches[-1])
    table.late.add(f"f{number}")
    watches[-1].files[f"f{number}"] = dict.fromkeys(keys, number)
    table.order.append(f"f{number}")
    if action == "late overwrite":
        table.olds.add(f"f{number}")


def hive_side(table: Table, action: str, part: str, keys: set[str], number: int) -> None:
    files = table.hive.setdefault(part, {})
    gone: set[str] = set()
    if action == "overwrite":
        gone = {*files}
    elif action.startswith("remove") and files:
        gone = {min(files) if action == "remove the first file" else max(files)}
    table.loses(part, gone)
    for name in gone:
        del files[name]
    for key in keys:
        table.answers(part, key)
    if keys:
        files[f"f{number}"] = dict.fromkeys(keys, number)
        table.order.append(f"f{number}")
        if part in table.refilling:
            table.olds.add(f"f{number}")


@settings(max_examples=1500)
@given(st.lists(STEPS, max_size=16))
def test_the_view_is_what_both_sides_say_and_each_key_has_one_row(steps: list[Step]) -> None:
    assert played(Rules(), *steps) is None


@settings(max_examples=1500)
@given(st.lists(STEPS, max_size=16))
def test_so_it_is_where_new_files_are_trusted_to_bring_new_keys(steps: list[Step]) -> None:
    assert played(Rules(), *steps, trusts=True) is None


HISTORIES: dict[str, list[Step]] = {
    "dead_for_good": [
        ("upsert", "q", {"a"}),
        ("add", "p", {"a"}),
        ("sync", "p", set()),
        ("overwrite", "p", set()),
        ("sync", "p", set()),
        ("overwrite", "q", {"a"}),
    ],
    "lost_keys": [
        ("upsert", "q", {"c"}),
        ("add", "p", {"c"}),
        ("sync", "p", set()),
        ("merge", "p", set()),
        ("overwrite", "p", set()),
    ],
    "refills": [
        ("upsert", "p", {"a"}),
        ("overwrite", "p", set()),
        ("sync", "p", set()),
        ("add", "p", {"a"}),
    ],
    "moves": [
        ("overwrite", "q", set()),
        ("time passes", "p", set()),
        ("upsert", "p", {"a"}),
        ("rename", "p", set()),
    ],
    "renames": [
        ("upsert", "p", {"a"}),
        ("move", "p", set()),
    ],
    "copies": [
        ("upsert", "p", {"a"}),
        ("copy", "p", set()),
    ],
    "moved_know": [
        ("upsert", "p", {"a"}),
        ("publish", "p", set()),
        ("copy", "p", set()),
    ],
    "moved_are_known": [
        ("overwrite", "p", {"b"}),
        ("sync", "p", set()),
        ("move", "q", set()),
    ],
    "skip_published": [
        ("delete", "p", {"c"}),
        ("publish", "p", set()),
        ("sync", "p", set()),
        ("overwrite", "p", {"a", "b", "c"}),
    ],
    "apart": [
        ("overwrite", "q", {"a", "c"}),
        ("upsert", "p", {"b"}),
        ("sync", "q", set()),
        ("publish", "r", set()),
        ("time passes", "r", set()),
        ("overwrite", "p", set()),
    ],
    "reread": [
        ("overwrite", "q", {"a"}),
        ("sync", "p", set()),
        ("overwrite", "q", set()),
    ],
    "watch": [
        ("upsert", "p", {"a"}),
        ("publish", "p", set()),
        ("sync", "p", set()),
        ("late add", "p", {"c"}),
    ],
    "taken_stay": [
        ("overwrite", "p", {"b"}),
        ("sync", "p", set()),
        ("add", "q", {"c"}),
        ("sync", "q", set()),
        ("remove the last file", "q", set()),
    ],
}


@pytest.mark.parametrize("rule", HISTORIES)
def test_without_the_rule_a_history_goes_wrong(rule: str) -> None:
    assert played(Rules(), *HISTORIES[rule]) is None
    assert played(replace(Rules(), **{rule: False}), *HISTORIES[rule]) is not None
