"""What callers are told when the metastore is away, slow, or loses an answer."""

from __future__ import annotations

import pytest

from catalog.errors import Invalid, Unavailable
from catalog.locations.paths import parse_metastore_address
from server.metastore import MetastoreSettings
from tests.server.metastore.addresses import Connect


def test_nobody_at_the_address_is_unavailable_for_reads_and_writes(connect: Connect, nobody: str) -> None:
    client = connect(nobody)
    with pytest.raises(Unavailable, match=f"no Hive metastore can be reached: {nobody}") as refused:
        client.databases()
    assert refused.value.hint is not None
    with pytest.raises(Unavailable):
        client.set_table_parameters("db", "t", {"a": "b"})


def test_a_silent_metastore_is_unavailable_after_the_time_out(connect: Connect, silent: str) -> None:
    with pytest.raises(Unavailable, match="did not answer for its databases"):
        connect(silent, patience=0.5).databases()


@pytest.mark.parametrize("uris", ["", "host:9083", "http://h:1", "thrift://", "thrift://h:x", "thrift://a:1,bad"])
def test_addresses_that_make_no_sense_are_refused(uris: str) -> None:
    with pytest.raises(Invalid, match="metastore"):
        MetastoreSettings.parse(uris)


def test_addresses_are_read_as_hive_writes_them() -> None:
    settings = MetastoreSettings.parse("thrift://a:9083, thrift://b")
    assert [parse_metastore_address(uri) for uri in settings.uris] == [("a", 9083), ("b", 9083)]
