"""Places of catalogs: what is taken, and in which form."""

from __future__ import annotations

import pytest

from catalog.errors import Invalid
from catalog.locations.paths import check_warehouse, parse_metastore_uris
from firn.protocol.locations import list_spellings


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("/srv/firn/", "/srv/firn"),
        ("file:///srv/firn", "file:///srv/firn"),
        ("file:/srv/firn/", "file:/srv/firn"),
        ("file://localhost/srv", "file://localhost/srv"),
        ("s3://bucket", "s3://bucket"),
        ("hdfs://namenode:8020/firn/ ", "hdfs://namenode:8020/firn"),
    ],
)
def test_absolute_places_are_taken(text: str, place: str) -> None:
    assert check_warehouse(text) == place


@pytest.mark.parametrize(
    "text",
    ["", "/", "nonsense", "a/b", "./a", "file:a", "file://", "file:///", "file://host/a", "s3:", "s3://", "C:\\w"],
)
def test_what_depends_on_who_looks_is_refused(text: str) -> None:
    with pytest.raises(Invalid):
        check_warehouse(text)


def test_metastores_are_named_as_hive_names_them() -> None:
    assert parse_metastore_uris("thrift://a:1, thrift://b") == ("thrift://a:1", "thrift://b")
    for wrong in ("", "a:9083", "http://a:9083", "thrift://", "thrift://a:port"):
        with pytest.raises(Invalid):
            parse_metastore_uris(wrong)


def test_one_place_has_many_spellings() -> None:
    assert {"/w/t", "file:/w/t", "file:///w/t/", "file://localhost/w/t"} <= list_spellings("file:///w/t")
    assert list_spellings("s3n://b/t/") == {
        f"{scheme}://b/t{end}" for scheme in ("s3", "s3a", "s3n") for end in ("", "/")
    }
    assert {"abfs://c@a/t", "abfss://c@a/t"} <= list_spellings("abfs://c@a/t")
