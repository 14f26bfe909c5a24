"""The same requests put to Iceberg's own Java library: it reads what we write, and decides as we do.

Where we differ, we do so on purpose, and KINDER and the tests below name each case.
"""

from __future__ import annotations

import copy
import json
import time
from collections.abc import Iterator
from random import Random
from unittest.mock import patch

import pytest
from py4j.java_gateway import GatewayParameters, JavaGateway, JavaObject, launch_gateway
from py4j.protocol import Py4JJavaError, get_return_value

from catalog.errors import Invalid, RequirementFailed
from catalog.iceberg.json import Json
from catalog.iceberg.table import apply_updates, pin_snapshot
from catalog.iceberg.view import apply_view_updates
from firn.embedded.pyspark_jars import pyspark_jars
from firn.spark.jars import fetch
from tests.catalog.iceberg.build import CREATED_MS, LOCATION, a_table, order, part, sort, spec, with_history
from tests.catalog.iceberg.nested_schema import NESTED
from tests.catalog.iceberg.random_requests import request
from tests.catalog.iceberg.random_views import a_random_view, view_request
from tests.catalog.iceberg.requirement_cases import FAIL, HOLD, TABLE

pytestmark = pytest.mark.spark

HISTORIES = 40
STEPS = 25
KINDER = (
    "no spec has been added",  # -1 after an equal spec that was there before: the client could not know
    "no schema has been added",
    "no sort order has been added",
    "no current version id has been set",
    "Expected sorted snapshot log entries",  # clocks that differ by more than a minute: we hold them back
    "arraySize cannot be negative",  # removing more unknown snapshots than the table has
)


class Reference:
    """Iceberg's library in a JVM of its own."""

    def __init__(self, gateway: JavaGateway) -> None:
        self.iceberg = gateway.jvm.org.apache.iceberg
        self.new_map = gateway.jvm.java.util.HashMap

    def table(self, metadata: Json, location: str = LOCATION) -> JavaObject:
        return self.iceberg.TableMetadataParser.fromJson(location, json.dumps(metadata))

    def rewritten(self, metadata: Json) -> Json:
        """The metadata as the library writes it after reading it."""
        return self.written(self.table(metadata))

    def written(self, metadata: JavaObject) -> Json:
        written: Json = json.loads(self.iceberg.TableMetadataParser.toJson(metadata))
        return written

    def applied(self, metadata: Json, updates: list[Json], location: str) -> Json | str:
        """The changed metadata, or the refusal's class and words."""
        builder = self.iceberg.TableMetadata.buildFrom(self.table(metadata, location))
        try:
            return self.written(self._built(builder, updates))
        except Py4JJavaError as refusal:
            return str(refusal.java_exception.toString())

    def view_applied(self, metadata: Json, updates: list[Json]) -> Json | str:
        views = self.iceberg.view
        builder = views.ViewMetadata.buildFrom(views.ViewMetadataParser.fromJson(json.dumps(metadata)))
        try:
            changed: Json = json.loads(views.ViewMetadataParser.toJson(self._built(builder, updates)))
        except Py4JJavaError as refusal:
            return str(refusal.java_exception.toString())
        return changed

    def view_rewritten(self, metadata: Json) -> Json:
        parser = self.iceberg.view.ViewMetadataParser
        rewritten: Json = json.loads(parser.toJson(parser.fromJson(json.dumps(metadata))))
        return rewritten

    def _built(self, builder: JavaObject, updates: list[Json]) -> JavaObject:
        for update in updates:
            self.iceberg.MetadataUpdateParser.fromJson(json.dumps(update)).applyTo(builder)
        return builder.build()


@pytest.fixture(scope="module")
def reference() -> Iterator[Reference]:
    port = launch_gateway(classpath=f"{fetch()}:{pyspark_jars()}/*", javaopts=["-Xmx400m"], die_on_exit=True)
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    # PySpark, once imported, replaces this for every gateway, and asks its own JVM about the exceptions of others.
    with patch("py4j.java_gateway.get_return_value", get_return_value):
        yield Reference(gateway)
    gateway.shutdown()


def comparable(metadata: Json, now_ms: int) -> Json:
    """The metadata without what the library takes from its own clock, and without the order of unordered lists."""
    seen = copy.deepcopy(metadata)
    seen["last-updated-ms"] = 0
    for entry in seen["snapshot-log"]:
        entry["timestamp-ms"] = min(entry["timestamp-ms"], now_ms)
    seen["metadata-log"] = [entry["metadata-file"] for entry in seen["metadata-log"]]
    for key in ("statistics", "partition-statistics"):
        seen[key].sort(key=lambda file: file["snapshot-id"])
    return seen


def assert_same_decision(reference: Reference, table: Json, updates: list[Json], step: int) -> Json:
    """The table after the request, once the library was seen to decide alike."""
    location, now_ms = f"file:/{step}.json", int(time.time() * 1000)
    theirs = reference.applied(table, updates, location)
    try:
        ours = apply_updates(table, updates, now_ms=now_ms, previous_location=location)
    except (Invalid, RequirementFailed):
        assert isinstance(theirs, str), updates
        return table
    if isinstance(theirs, str):
        assert any(reason in theirs for reason in KINDER), (theirs, updates)
    elif ours is not table:  # the library also counts removing what is not there as a change
        assert comparable(reference.rewritten(ours), now_ms) == comparable(theirs, now_ms)
    return ours


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_the_library_decides_alike(reference: Reference, seed: int) -> None:
    rng = Random(seed)
    table = with_history(a_table(1 + seed % 3, partition_spec=spec(part(2, "day", "day_day"))), 2)
    for step in range(STEPS):
        table = assert_same_decision(reference, table, request(rng, table), step)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_library_makes_the_same_new_table(reference: Reference, version: int) -> None:
    iceberg = reference.iceberg
    asked_spec = spec(part(10, "bucket[4]", "b", 1000), part(41, "identity", "z", 1001))
    asked_order, columns = (
        order(sort(41, direction="desc", nulls="nulls-last")),
        {**NESTED, "identifier-field-ids": [10]},
    )
    parsed = iceberg.SchemaParser.fromJson(json.dumps(columns))
    properties = reference.new_map()
    for name, value in {"format-version": str(version), "owner": "ann", "uuid": "x"}.items():
        properties.put(name, value)
    metadata = iceberg.TableMetadata.newTableMetadata(
        parsed,
        iceberg.PartitionSpecParser.fromJson(parsed, json.dumps(asked_spec)),
        iceberg.SortOrderParser.fromJson(parsed, json.dumps(asked_order)),
        LOCATION + "/",
        properties,
    )
    ours = a_table(
        version,
        columns=columns,
        partition_spec=asked_spec,
        sort_order=asked_order,
        properties={"owner": "ann", "uuid": "x"},
    )
    theirs = {**reference.written(metadata), "table-uuid": ours["table-uuid"]}
    assert comparable(reference.rewritten(ours), CREATED_MS) == comparable(theirs, CREATED_MS)
    assert reference.rewritten(ours) == ours


@pytest.mark.parametrize("version", [1, 2, 3])
def test_the_library_reads_pinned_tables(reference: Reference, version: int) -> None:
    table = with_history(a_table(version), 4)
    for snapshot_id in (2, 4, None):
        pin = pin_snapshot(table, snapshot_id, schema_id=0)
        read = reference.rewritten(pin)
        assert read["current-snapshot-id"] == pin["current-snapshot-id"]
        assert [entry["snapshot-id"] for entry in read["snapshots"]] == [
            entry["snapshot-id"] for entry in pin["snapshots"]
        ]


@pytest.mark.parametrize("requirement", HOLD, ids=str)
def test_the_library_passes_the_same_requirements(reference: Reference, requirement: Json) -> None:
    parsed = reference.iceberg.UpdateRequirementParser.fromJson(json.dumps(requirement))
    parsed.validate(reference.table(TABLE))


@pytest.mark.parametrize(("requirement", "message"), FAIL)
def test_the_library_fails_the_same_requirements_in_the_same_words(
    reference: Reference, requirement: Json, message: str
) -> None:
    parsed = reference.iceberg.UpdateRequirementParser.fromJson(json.dumps(requirement))
    with pytest.raises(Py4JJavaError) as failure:
        parsed.validate(reference.table(TABLE))
    assert failure.value.java_exception.getMessage() == f"Requirement failed: {message}"


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_the_library_decides_alike_about_views(reference: Reference, seed: int) -> None:
    rng = Random(seed)
    view = a_random_view(rng)
    for _ in range(STEPS):
        updates, now_ms = view_request(rng, view), int(time.time() * 1000)
        theirs = reference.view_applied(view, updates)
        try:
            ours = apply_view_updates(view, updates, now_ms=now_ms)
        except Invalid:
            assert isinstance(theirs, str), updates
            continue
        if isinstance(theirs, str):
            assert any(reason in theirs for reason in KINDER), (theirs, updates)
        elif ours is not view:
            assert comparable_view(reference.view_rewritten(ours), now_ms) == comparable_view(theirs, now_ms)
        view = ours


def comparable_view(metadata: Json, now_ms: int) -> Json:
    seen = copy.deepcopy(metadata)
    for entry in seen["version-log"]:
        entry["timestamp-ms"] = min(entry["timestamp-ms"], now_ms)
    seen["versions"].sort(key=lambda version: version["version-id"])
    return seen
