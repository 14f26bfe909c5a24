"""Every place of every route in which a location can enter, given the locations that no table may have.

A route that takes a body is named here: with the places in which it takes a location, or among those that take none.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from server.files.storage import Storage
from server.service.tables.tables import TableDefinition
from tests.databases import open_database
from tests.factories import LAKE
from tests.server.guard.location_requests import (
    BEHIND_HIVE,
    DIRECTORIES,
    FILES,
    HIDDEN,
    KEYED,
    MINE,
    OF_ADMINISTRATORS,
    OF_OPTIMIZERS,
    PUBLISH,
    SOURCES,
    WITH_BODIES,
    WITHOUT,
    AttackedLake,
    Enters,
    _view,
)
from tests.server.lake import COLUMNS, a_lake
from tests.server.service.dropping import append_files, path_of


def test_no_route_is_forgotten_that_may_take_a_location() -> None:
    taking = {*DIRECTORIES, *FILES, *SOURCES, *BEHIND_HIVE, *OF_ADMINISTRATORS, *OF_OPTIMIZERS}
    assert not taking & WITHOUT
    assert taking | WITHOUT == WITH_BODIES


@pytest.fixture(scope="module")
def attacked(migrated_sqlite: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AttackedLake]:
    directory = tmp_path_factory.mktemp("locations")
    shutil.copy(migrated_sqlite, directory / "firn.db")
    with open_database(f"sqlite:///{directory / 'firn.db'}") as opened:
        lake = a_lake(opened.database, directory)
        for name in (HIDDEN, MINE):
            lake.services.tables.create(LAKE, TableDefinition(name=name, schema=COLUMNS))
        append_files(lake, HIDDEN)
        lake.create_keyed(KEYED)
        created = lake.client.request(*_view(name="v")[:2], json=_view(name="v")[2])
        assert created.status_code == 200, created.text
        hidden = lake.metadata(HIDDEN)
        manifest_list = hidden["snapshots"][-1]["manifest-list"]
        manifest = lake.services.committer.manifest_lists.named(manifest_list)[0]
        (lake.warehouse / "link").symlink_to(path_of(hidden["location"]))
        (lake.warehouse / "out").symlink_to("/dev")
        warehouse = lake.warehouse.as_uri()
        yield AttackedLake(
            lake=lake,
            warehouse=warehouse,
            hidden=hidden["location"],
            manifest_list=manifest_list,
            manifest=manifest,
        )


BAD_DIRECTORIES: Mapping[str, Callable[[AttackedLake], str]] = {
    "another table's directory": lambda on: on.hidden,
    "inside another table's": lambda on: f"{on.hidden}/data/x",
    "around another table's": lambda on: on.hidden.rpartition("/")[0],
    "another table's, encoded": lambda on: on.hidden.replace("/db/", "/d%62/"),
    "another table's, with one slash": lambda on: on.hidden.replace("file:///", "file:/") + "//x",
    "another table's, by a link": lambda on: f"{on.warehouse}/link/data",
    "the warehouse": lambda on: on.warehouse,
    "what holds the warehouse": lambda on: on.warehouse.rpartition("/")[0],
    "climbing out": lambda on: f"{on.warehouse}/../..",
    "climbing out and back": lambda on: f"{on.warehouse}/../warehouse/x",
    "climbing by encoded dots": lambda on: f"{on.warehouse}/%2e%2e/x",
    "any directory of the machine": lambda _: "file:///etc/firn",
    "a bucket": lambda _: "s3://bucket/t",
    "an unknown scheme": lambda _: "hf://datasets/t",
    "out by a link": lambda on: f"{on.warehouse}/out/shm",
    "the quarantine": lambda on: f"{on.warehouse}/_firn_quarantine/x",
}
GOOD_TO_PUBLISH_TO = {"around another table's", "the warehouse"}
"""Each table publishes to a directory of its own in there."""
BAD_FILES: Mapping[str, Callable[[AttackedLake], str]] = {
    "another table's": lambda on: on.manifest_list,
    "another table's, encoded": lambda on: on.manifest_list.replace("/db/", "/d%62/"),
    "another table's before a cut": lambda on: f"{on.manifest_list}#/../../mine",
    "another table's, by a link": lambda on: f"{on.warehouse}/link/metadata/{on.manifest_list.rpartition('/')[2]}",
    "climbing out": lambda on: f"{on.warehouse}/x/../../secret.avro",
    "a device": lambda _: "/dev/stdout",
    "a device by a link": lambda on: f"{on.warehouse}/out/zero",
    "any file of the machine": lambda _: "file:///etc/passwd",
    "a bucket": lambda _: "s3://bucket/t/metadata/x.avro",
    "an unknown scheme": lambda _: "hf://datasets/t/x.avro",
}
BAD_SOURCES = {
    key: BAD_DIRECTORIES[key] for key in ("climbing out", "any directory of the machine", "a bucket", "out by a link")
}


def _refused(on: AttackedLake, enters: Enters, location: str) -> None:
    method, path, body = enters(on, location)
    before = _files(on)
    answer = on.lake.client.request(method, path, json=body)
    assert answer.status_code == 400, answer.text
    assert "hidden" not in answer.text.replace(location, "").replace(path_of(location).as_posix(), "")
    assert _files(on) == before


def _files(on: AttackedLake) -> set[str]:
    """All paths around the warehouse; two lists for each request, so `rglob` would take most of the test's time."""
    return {
        os.path.join(directory, name)  # noqa: PTH118 -- as above
        for directory, directories, files in os.walk(on.lake.warehouse.parent)
        for name in (*directories, *files)
        if "firn.db" not in name
    }


def _cases(places: Mapping[str, Mapping[str, Enters]]) -> list[Any]:
    return [
        pytest.param(place.partition(" of ")[0], enters, id=f"{route} {place}")
        for route, of in places.items()
        for place, enters in of.items()
    ]


@pytest.mark.parametrize(("place", "enters"), _cases(DIRECTORIES))
def test_no_directory_enters_that_a_table_may_not_have(attacked: AttackedLake, place: str, enters: Enters) -> None:
    for kind, location in BAD_DIRECTORIES.items():
        if place != PUBLISH or kind not in GOOD_TO_PUBLISH_TO:
            _refused(attacked, enters, location(attacked))


@pytest.mark.parametrize(("place", "enters"), _cases(FILES))
def test_no_file_enters_that_a_table_may_not_name(attacked: AttackedLake, place: str, enters: Enters) -> None:
    assert place
    for location in BAD_FILES.values():
        _refused(attacked, enters, location(attacked))


@pytest.mark.parametrize(("place", "enters"), _cases(SOURCES))
def test_no_directory_is_scanned_that_the_catalog_may_not_have(
    attacked: AttackedLake, place: str, enters: Enters
) -> None:
    assert place
    for location in BAD_SOURCES.values():
        _refused(attacked, enters, location(attacked))


def test_the_storage_is_the_one_that_follows_links(attacked: AttackedLake) -> None:
    """Or the cases above with links would prove nothing."""
    assert isinstance(attacked.lake.services.metadata.files, Storage)
