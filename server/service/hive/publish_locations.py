"""The directories of published partitions: one for each table, so that no other table's clean-up deletes its files."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from urllib.parse import unquote
from uuid import UUID

from catalog.errors import Conflict, NotFound
from catalog.hive.path_prefix import find_innermost
from catalog.locations.location_rule import PUBLISH_LOCATION, PUBLISHED
from catalog.names import RelationId
from catalog.ports.hadoop import FileSystems
from catalog.ports.store import UnitOfWork
from catalog.tables.relation import Relation
from firn.protocol.locations import lies_in, normalize_location
from server.service.planning.policies import load_stored_policy

NEARER = "set firn.hive.publish.location to a directory behind the table's own mount point and name service"


def get_publish_directory(uow: UnitOfWork, relation: Relation) -> str:
    """The directory for the table's next published partitions."""
    root = publish_location(uow, relation) or f"{uow.catalogs.get(relation.catalog).warehouse}/{PUBLISHED}"
    return f"{root.rstrip('/')}/{relation.id}"


def publish_location(uow: UnitOfWork, relation: Relation) -> str | None:
    """The publish location of the table's policy; None stands for the warehouse."""
    location: str | None = load_stored_policy(uow, relation)[PUBLISH_LOCATION]
    return location


@dataclass(frozen=True)
class WritersReach:
    """Whether Hive's writers can move new files into published directories.

    An engine writes new files below the table's location first, then renames them into the directories of their
    partitions. HDFS renames nothing from one name service or mount point to another, so each INSERT would fail.
    """

    file_systems: FileSystems

    def find_barrier(self, table_location: str, directory: str) -> str | None:
        """Why they cannot move files from the table's location into the directory; None if they can."""
        if not self.file_systems.select([table_location, directory]):
            return None
        if self.file_systems.can_rename(table_location, directory):
            return None
        return (
            f"{directory} lies in another name service or mount point than {table_location}, so Hive's writers could "
            "not move new files there"
        )

    def check(self, table_location: str, directory: str) -> None:
        """Raise Conflict if they cannot."""
        barrier = self.find_barrier(table_location, directory)
        if barrier is not None:
            raise Conflict(barrier, hint=NEARER)


def get_own_directory(uow: UnitOfWork, relation: Relation, counted: Collection[str] = ()) -> str:
    """The table's own directory of published partitions.

    Raises Conflict if the clean-up of another table would find its files, or if it lies in one of the `counted`
    directories, below which every file is Hive's.
    """
    place = get_publish_directory(uow, relation)
    root = place.rpartition("/")[0]
    if find_innermost(normalize_location(place), {*map(normalize_location, counted)}):
        raise Conflict(
            f"{root} lies in a directory of {relation.hive_name}, where Hive reads every file",
            hint="set firn.hive.publish.location to a directory that is no table's",
        )
    around = [overlap.location for overlap in uow.dropped.find_overlaps([place], but_for=())]
    if any(lies_in(normalize_location(place), normalize_location(overlap)) for overlap in around):
        raise Conflict(
            f"{root} lies in another table's location, whose orphan removal would delete the published files",
            hint="set firn.hive.publish.location to a directory that is no table's",
        )
    if any(_is_a_table(uow, part) for part in unquote(root).split("/")):
        raise Conflict(
            f"{root} lies in another table's publish directory, whose clean-up would delete the published files",
            hint="set firn.hive.publish.location to a directory that is no table's",
        )
    return place


def _is_a_table(uow: UnitOfWork, text: str) -> bool:
    """Whether a part of a path is the id of a table, also of a dropped one. Publish directories have such names."""
    try:
        relation_id = RelationId(UUID(text))
    except ValueError:
        return False
    try:
        uow.relations.get(relation_id)
    except NotFound:
        return bool(uow.dropped.relations_of(relation_id))
    return True
