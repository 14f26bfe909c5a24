"""An open publish ends in one way: the metastore is pointed there, or it is given up; or others keep it waiting."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from catalog.hive.baseline import ChangeSignals, PartitionBaseline, WatchedDirectory
from catalog.hive.listing import ListedFile
from catalog.hive.repoint_decisions import InHive, RepointKind, decide_repoints

OLD, NEW = ChangeSignals(location="file:/t/p=x"), ChangeSignals(location="file:///w/p=x")
FILE = ListedFile("a", 1, 1)
PUBLISHED = WatchedDirectory(location="file:/w/p=x", files=(), published_through=1, since_ns=0)
OPEN = PartitionBaseline(signals=OLD, files=(FILE,), publishing=PUBLISHED)


def kinds(hive: InHive, open_publishes: Mapping[str, PartitionBaseline] | None = None) -> dict[str, RepointKind]:
    decisions = decide_repoints(open_publishes or {"p=x": OPEN}, hive)
    return {name: decision.kind for name, decision in decisions.items()}


@pytest.mark.parametrize(
    ("hive", "kind"),
    [
        (InHive(signals={"p=x": OLD}), RepointKind.MOVE),
        (InHive(signals={"p=x": NEW}), RepointKind.DONE),
        (InHive(signals={"p=x": OLD}, overtaken={"p=x"}), RepointKind.GIVE_UP),
        (InHive(signals={"p=x": NEW}, overtaken={"p=x"}), RepointKind.DONE),
        (InHive(signals={"p=x": NEW}, unfit="another table"), RepointKind.GIVE_UP),
        (InHive(signals={}, locked={"p=x": "hive@elsewhere"}, unfit="another table"), RepointKind.WAIT),
    ],
)
def test_each_open_publish_gets_the_decision_that_counts_first(hive: InHive, kind: RepointKind) -> None:
    assert kinds(hive) == {"p=x": kind}


def test_what_others_have_locked_holds_up_nothing_else() -> None:
    hive = InHive(signals={"p=y": OLD}, locked={"p=x": "hive@elsewhere"})
    decisions = decide_repoints({"p=x": OPEN, "p=y": OPEN}, hive)
    assert (decisions["p=x"].kind, decisions["p=x"].reason) == (RepointKind.WAIT, "hive@elsewhere")
    assert (decisions["p=y"].kind, decisions["p=y"].held_by) == (RepointKind.MOVE, "")
