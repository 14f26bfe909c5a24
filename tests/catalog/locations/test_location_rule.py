"""Where a catalog's tables may lie, and which files they may name."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import pytest

from catalog.errors import LocationRefused
from catalog.locations.location_rule import AllowedLocations, FileRule, Root, list_own_locations


@dataclass(frozen=True)
class DeclaredLinks:
    """Links of a disk that the test names."""

    targets: dict[str, str] = field(default_factory=dict)

    def real_path(self, path: str) -> str:
        for link, target in self.targets.items():
            if path == link or path.startswith(f"{link}/"):
                return self.real_path(target + path[len(link) :])
        return path

    def is_link(self, path: str) -> bool:
        return path in self.targets


NO_LINKS = DeclaredLinks()


def allowed_in(*roots: str, reserved: Collection[str] = (), links: DeclaredLinks = NO_LINKS) -> AllowedLocations:
    return AllowedLocations(
        catalog="lake",
        roots=tuple(Root.of(root, links) for root in roots),
        reserved=tuple(Root.of(location, links) for location in reserved),
    )


@pytest.mark.parametrize(
    "location",
    [
        "s3://lake/wh/db/t",
        "s3a://lake/wh/db/t",
        "s3n://lake/wh//db/t/",
        "s3://fast/tables/t",
    ],
)
def test_a_table_may_lie_below_the_warehouse_and_below_what_was_allowed(location: str) -> None:
    assert allowed_in("s3://lake/wh", "s3://fast/tables/").check_directory(location, NO_LINKS)


@pytest.mark.parametrize(
    "location",
    [
        "s3://lake/wh",
        "s3://lake/wh/",
        "s3://lake/wh2/t",
        "s3://lake",
        "s3://secrets/t",
        "s3://fast/tables",
        "s3://lake/wh/../x",
        "s3://lake/wh/x/../y",
        "s3://lake/wh/%2e%2e/x",
        "s3://lake/wh/%252e%252e/x",
        "s3://lake/wh/..%2Fx",
        "s3://lake/secret?/../wh/t",
        "s3://lake/secret#/wh/t",
        "s3://user@lake/wh/t",
        "S3://lake/wh/t",
        "s3:/lake/wh/t",
        "gs://lake/wh/t",
        "/lake/wh/t",
        "file:///lake/wh/t",
        "lake/wh/t",
        " s3://lake/wh/t",
        "s3://lake/wh/t\\x",
        "s3://lake/wh/t\n",
        "s3://lake/wh/_firn_quarantine/t",
        "",
    ],
)
def test_no_table_lies_outside_or_where_two_programs_would_look_in_two_places(location: str) -> None:
    allowed = allowed_in("s3://lake/wh", "s3://fast/tables/", reserved=["s3://lake/wh/_firn_quarantine"])
    with pytest.raises(LocationRefused):
        allowed.check_directory(location, NO_LINKS)


def test_a_catalog_within_anothers_warehouse_has_its_tables_to_itself() -> None:
    outer = allowed_in("/data", reserved=["/data/inner"])
    inner = allowed_in("/data/inner", reserved=["/data"])
    assert outer.check_directory("/data/t", NO_LINKS)
    assert inner.check_directory("/data/inner/t", NO_LINKS)
    for location in ("/data/inner/t", "/data/inner"):
        with pytest.raises(LocationRefused):
            outer.check_directory(location, NO_LINKS)


def test_a_warehouse_reached_by_a_link_is_known_by_both_names() -> None:
    links = DeclaredLinks({"/data": "/mnt/disk1"})
    allowed = allowed_in("/data/wh", links=links)
    for location in ("/data/wh/t", "file:///mnt/disk1/wh/t"):
        assert {"/data/wh/t", "/mnt/disk1/wh/t"} <= allowed.check_directory(location, links)


def test_no_new_table_lies_behind_a_link_inside_the_warehouse() -> None:
    links = DeclaredLinks({"/wh/mine/link": "/wh/hidden", "/wh/out": "/etc"})
    for location in ("/wh/mine/link/t", "/wh/mine/link", "/wh/out/t"):
        with pytest.raises(LocationRefused):
            allowed_in("/wh", links=links).check_directory(location, links)


def test_data_and_metadata_may_lie_elsewhere() -> None:
    metadata = {
        "location": "s3://lake/wh/t",
        "properties": {"write.data.path": "s3://fast/t/", "write.metadata.path": "s3://lake/wh/t/meta"},
    }
    assert list_own_locations(metadata) == ("s3://lake/wh/t", "s3://fast/t")


@dataclass
class OtherPlaces:
    """Other tables' directories, and how often somebody asked for them."""

    places: Collection[str]
    times: int = 0

    def __call__(self, _wanted: Collection[str]) -> Collection[str]:
        self.times += 1
        return self.places


LINKS = DeclaredLinks({"/wh/mine/link": "/wh/hidden", "/wh/mine/data/f-link": "/wh/hidden/f", "/wh/mine/etc": "/etc"})


def rule(others: Collection[str] = ("file:/wh/hidden",)) -> tuple[FileRule, OtherPlaces]:
    other_places = OtherPlaces(others)
    own = ("file:///wh/mine", "/elsewhere/mine")
    file_rule = FileRule(table="db.mine", allowed=allowed_in("/wh"), own=own, others=other_places, links=LINKS)
    return file_rule, other_places


def test_a_table_names_its_own_files_and_nobody_else_is_looked_up() -> None:
    file_rule, other_places = rule()
    own = [
        *("/wh/mine/data/f", "file:/wh/mine/metadata/snap-1.avro", "file:///wh/mine/data/p=a%2F..%2F..%2Fb/f"),
        *("/wh/mine/data/p=%2E%2E%2Fx/f", "/wh/mine/data/p=a#b/f", "/wh/mine//data/f", "/wh/mine/data/p=a b/f"),
    ]
    assert file_rule.find_refused(own) == {}
    assert other_places.times == 0
    assert file_rule.select_deletable(own) == own


def test_a_file_from_a_landing_area_is_read_and_never_deleted() -> None:
    file_rule, other_places = rule()
    landed = [f"/wh/landing/{number}/f" for number in range(100)]
    assert file_rule.find_refused(landed) == {}
    assert other_places.times == 1
    assert file_rule.select_deletable(landed) == []


def test_who_has_the_directory_of_a_namespace_has_no_files_of_tables_that_are_created_there_later() -> None:
    secret = "/wh/db/secret-0123456789ab"
    file_rule = FileRule(
        table="evil.t", allowed=allowed_in("/wh"), own=["file:///wh/db"], others=lambda _: [secret], links=NO_LINKS
    )
    own = ["/wh/db/data/f", "/wh/db/data/id=550e8400-e29b-41d4-a716-446655440000/f"]
    hidden = [f"{secret}/metadata/snap.avro", f"file:{secret}/data/f", f"{secret}/f"]
    assert set(file_rule.find_refused([*own, *hidden, "/wh/db/data/x-0123456789ab/f"])) == {*hidden}
    assert file_rule.select_deletable([*own, *hidden]) == own


def test_files_lie_right_in_a_landing_area_but_not_right_in_a_warehouse() -> None:
    file_rule = FileRule(
        table="db.mine", allowed=allowed_in("/wh", "/landing"), own=["/wh/mine"], others=lambda _: (), links=NO_LINKS
    )
    assert set(file_rule.find_refused(["/landing/f", "/wh/f"])) == {"/wh/f"}
    assert file_rule.select_deletable(["/landing/f"]) == []


@pytest.mark.parametrize(
    "location",
    [
        "/wh/hidden/f",
        "file:///wh//hidden/f",
        "/wh/%68idden/f",
        "/wh/hidden/f#/../../mine/f",
        "/wh/hidden/f?x",
        "/wh/mine/link/f",
        "/wh/mine/data/f-link",
        "/wh/mine/../hidden/f",
        "/wh/mine/%2e%2e/hidden/f",
        "/wh/mine/data/..",
        "/wh/mine/etc/passwd",
        "/etc/passwd",
        "/dev/stdout",
        "/elsewhere/mine/f",
        "s3://wh/mine/f",
        "hf://wh/mine/f",
        "hdfs://nn/wh/mine/f",
        "wh/mine/f",
        "file://host/wh/mine/f",
        "/wh/mine/f\0",
        "",
    ],
)
def test_a_table_names_no_file_of_another_nor_outside(location: str) -> None:
    file_rule, _ = rule()
    assert list(file_rule.find_refused([location])) == [location]
    assert file_rule.select_deletable([location]) == []
    with pytest.raises(LocationRefused) as refused:
        file_rule.check([location])
    assert "hidden" not in refused.value.message.replace(location, "").replace(f"{location.rpartition('/')[0]}/", "")


def test_files_of_a_table_inside_the_tables_own_directory_are_not_deleted() -> None:
    file_rule, _ = rule(["/wh/mine/inner"])
    assert file_rule.select_deletable(["/wh/mine/data/f", "/wh/mine/inner/f"]) == ["/wh/mine/data/f"]


def test_what_hive_gave_a_table_is_its_own_wherever_it_lies() -> None:
    other_places = OtherPlaces(())
    file_rule = FileRule(
        table="db.mine",
        allowed=allowed_in("/wh"),
        own=["/wh/mine"],
        hive_locations=["hdfs://nn:8020/hive/t", "/hive/odd/p=1"],
        others=other_places,
        links=NO_LINKS,
    )
    files = ["hdfs://nn:8020/hive/t/p=2/000000_0", "file:/hive/odd/p=1/000000_0"]
    assert file_rule.find_refused(files) == {}
    assert other_places.times == 0
    assert list(file_rule.find_refused(["hdfs://other:8020/hive/t/f"]))
