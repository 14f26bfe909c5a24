"""Tables with files in sub-directories."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from catalog.hive.baseline import PartitionBaseline
from catalog.jobs.operation import Operation
from firn.protocol.operations import OperationStatus
from tests.server.service.hive.beside_hive import LONG_AGO_NS, BesideHive, HiveFiles, aged, uri
from tests.server.service.hive.synced_tables import make_due, relation_of

RULE = "firn.hive.subdirectories"
UNION = "HIVE_UNION_SUBDIR_1"


def below(table: HiveFiles, *ids: int, part: str = "p=x", sub: str = UNION) -> Path:
    """A file in a sub-directory of a partition."""
    directory = table.path / part / sub
    directory.mkdir(parents=True, exist_ok=True)
    return table.add_at(uri(directory), *ids)


def settle(table: HiveFiles) -> None:
    """As if every directory had been written long ago, so that the next listing's times prove something."""
    for at, path in enumerate(sorted(table.path.rglob("*/"), reverse=True)):
        aged(path, LONG_AGO_NS + at)


def upgraded(beside: BesideHive, rule: str | None, *key: str) -> HiveFiles:
    """A table with files in and below its partitions."""
    table = beside.hive_table()
    below(table, 4)
    below(table, 5, sub=f"{UNION}/deep=1")
    settle(table)
    assert outcome(beside, table, rule, *key).status is OperationStatus.SUCCEEDED
    return table


def outcome(beside: BesideHive, table: HiveFiles, rule: str | None, *key: str) -> Operation:
    operation = beside.start(table, *key)
    if rule is not None:
        with beside.database.writing() as uow:
            params = {**operation.params, "properties": {RULE: rule}}
            uow.operations.put(replace(operation, params=params))
    beside.upgrades.activate()
    return beside.operation(operation)


def baseline_of(beside: BesideHive, table: HiveFiles, part: str = "p=x") -> PartitionBaseline:
    with beside.database.reading() as uow:
        return PartitionBaseline.from_json(uow.baselines.of(relation_of(beside, table).id)[part])


def scheduled(beside: BesideHive, table: HiveFiles) -> None:
    """A sync by the schedule, which lists only what some signal speaks for."""
    make_due(beside, table)
    beside.syncs.activate()
