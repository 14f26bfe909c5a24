"""What is known of partitions comes back as it was, however many files they have."""

from __future__ import annotations

import pytest

from catalog.hive.baseline import ChangeSignals, PartitionBaseline
from catalog.hive.listing import ListedFile
from catalog.names import RelationId
from catalog.ports.store import Database
from tests.factories import LAKE, a_catalog, a_relation


@pytest.mark.parametrize("files", [0, 1, 3000])
def test_grounds_of_few_and_of_many_files_come_back_as_they_were(database: Database, files: int) -> None:
    listed = tuple(ListedFile(f"part-{n:05d}.parquet", n, n * 10**9, str(n)) for n in range(files))
    baseline = PartitionBaseline(
        signals=ChangeSignals(location="s3://far/p=x", ddl_time=7, statistics=("1", None)), files=listed
    )
    relation = a_relation(location="s3://far", metadata_location=None, hive_name="shop.orders")
    with database.writing() as uow:
        uow.catalogs.add(a_catalog())
        uow.namespaces.add(LAKE, ("db",), {})
        uow.relations.add(relation)
        uow.baselines.put(relation.id, {"p=x": baseline.to_json()})
    assert baselines(database, relation.id) == {"p=x": baseline}


def baselines(database: Database, relation_id: RelationId) -> dict[str, PartitionBaseline]:
    with database.reading() as uow:
        return {name: PartitionBaseline.from_json(baseline) for name, baseline in uow.baselines.of(relation_id).items()}
