"""What is known of partitions comes back as it was, however many files they have."""

from __future__ import annotations

import pytest

from catalog.hive.ground import Ground, ListedFile, Signals
from catalog.names import RelationId
from catalog.ports.store import Database
from tests.factories import LAKE, a_catalog, a_relation


@pytest.mark.parametrize("files", [0, 1, 3000])
def test_grounds_of_few_and_of_many_files_come_back_as_they_were(database: Database, files: int) -> None:
    listed = tuple(ListedFile(f"part-{n:05d}.parquet", n, n * 10**9, str(n)) for n in range(files))
    ground = Ground(signals=Signals(location="s3://far/p=x", ddl_time=7, statistics=("1", None)), files=listed)
    relation = a_relation(location="s3://far", metadata_location=None, hive_name="shop.orders")
    with database.writing() as uow:
        uow.catalogs.add(a_catalog())
        uow.namespaces.add(LAKE, ("db",), {})
        uow.relations.add(relation)
        uow.grounds.put(relation.id, {"p=x": ground.to_json()})
    assert grounds(database, relation.id) == {"p=x": ground}


def grounds(database: Database, relation_id: RelationId) -> dict[str, Ground]:
    with database.reading() as uow:
        return {name: Ground.from_json(one) for name, one in uow.grounds.of(relation_id).items()}
