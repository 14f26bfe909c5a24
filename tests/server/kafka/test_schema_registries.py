"""The server's client of schema registries, against a small HTTP server."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from catalog.errors import CatalogError, Forbidden, Invalid, NotFound, Unavailable
from catalog.kafka.schema_registry import LARGEST_SCHEMA, SchemaRegistry, check_registry
from server.kafka import schema_registries
from server.kafka.schema_registries import LARGEST_ANSWER, HttpSchemaRegistries
from tests.schema_registry import Registry, record, running_registry

ORDER = record("Order", id="long")


@pytest.fixture
def registry() -> Iterator[Registry]:
    with running_registry() as running:
        yield running


def load(registry: Registry, number: int, client: HttpSchemaRegistries | None = None) -> list[str]:
    named = SchemaRegistry(url=registry.url)
    return [*(client or HttpSchemaRegistries()).load_schema(named, None, number, None).texts]


def test_a_schema_comes_after_those_that_it_refers_to_each_one_once(registry: Registry) -> None:
    registry.register("place", record("Place", city="string"))
    place = {"name": "Place", "subject": "place", "version": 1}
    registry.register("of two", record("Home", at="Place"), references=[place])
    home = {"name": "Home", "subject": "of two", "version": 1}
    top = registry.register("customer", record("Customer", home="Home", work="Place"), references=[home, place])
    names = [json.loads(text)["name"] for text in load(registry, top)]
    assert names == ["Place", "Home", "Customer"]
    assert registry.requests[1:] == ["/subjects/of%20two/versions/1", "/subjects/place/versions/1"]


def test_a_schema_is_asked_for_once(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    client = HttpSchemaRegistries()
    numbers = [registry.register("a", ORDER), registry.register("b", ORDER)]
    for number in (*numbers, *numbers):
        assert load(registry, number, client) == [json.dumps(ORDER)]
    assert registry.requests == ["/schemas/ids/1", "/schemas/ids/2"]
    monkeypatch.setattr(schema_registries, "MOST_SCHEMAS", 1)
    load(registry, registry.register("c", ORDER), client)
    load(registry, numbers[0], client)
    assert registry.requests[2:] == ["/schemas/ids/3", "/schemas/ids/1"], "the oldest ones are forgotten"


def test_a_user_signs_in() -> None:
    with running_registry(("firn", "secret")) as registry:
        registry.register("a", ORDER)
        named = SchemaRegistry(url=registry.url, username="firn")
        assert HttpSchemaRegistries().count_subjects(named, "secret", None) == 1
        with pytest.raises(Forbidden, match="refuses the connection's user"):
            HttpSchemaRegistries().load_schema(named, "wrong", 1, None)


PATH = "/schemas/ids/1"


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        ((404, b"{}"), NotFound, "has no /schemas/ids/1"),
        ((500, b"{}"), Unavailable, "status 500"),
        ((400, b"secret of another service"), Invalid, "status 400$"),
        ((302, b"http://169.254.169.254/"), Invalid, "redirects, which the server does not follow"),
        ((200, b"<html>"), Invalid, "does not answer like a schema registry"),
        ((200, b"[" * 100_000), Invalid, "does not answer like a schema registry"),
        ((200, b"[]"), Invalid, "malformed"),
        ((200, b'{"schema": 1}'), Invalid, "malformed"),
        ((200, b'{"schema": "{}", "references": [{"subject": 1}]}'), Invalid, "malformed"),
        ((200, b'{"schema": "{}", "schemaType": "PROTOBUF"}'), NotFound, "but one of PROTOBUF"),
        ((200, b" " * (LARGEST_ANSWER + 1)), Invalid, "more than 4 MiB"),
        ((200, json.dumps({"schema": "x" * (LARGEST_SCHEMA + 1)}).encode()), Invalid, "more than 1,048,576 characters"),
    ],
)
def test_other_answers_are_errors(
    registry: Registry, answer: tuple[int, bytes], error: type[CatalogError], message: str
) -> None:
    registry.answers[PATH] = answer
    with pytest.raises(error, match=message):
        load(registry, 1)


def test_schemas_that_refer_to_each_other_end(registry: Registry) -> None:
    circle = {"name": "A", "subject": "a", "version": 1}
    registry.register("a", ORDER, references=[circle])
    with pytest.raises(Invalid, match=r"malformed|more than 50"):
        load(registry, 1)
    assert len(registry.requests) < 100


def test_a_registry_that_does_not_run() -> None:
    with running_registry() as registry:
        pass
    with pytest.raises(Unavailable, match="does not answer"):
        load(registry, 1)


def test_an_address_that_a_name_resolves_to_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    forbidden = [(2, 1, 6, "", ("169.254.169.254", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: forbidden)
    with pytest.raises(Invalid, match="is no address of another server"):
        HttpSchemaRegistries().load_schema(SchemaRegistry(url="http://registry.example"), None, 1, None)


@pytest.mark.parametrize(
    "url",
    [
        *("", "registry:8081", "file:///etc/passwd", "http://", "http://u:p@registry", "http://r?x=1", "http://r#x"),
        *("http://169.254.169.254", "http://[::]", "http://r:99999", "http://r/a b", "http://" + "x" * 3000),
        "http://[x",
    ],
)
def test_bad_addresses_are_refused(url: str) -> None:
    with pytest.raises(Invalid):
        check_registry(SchemaRegistry(url=url), None)


def test_a_user_needs_a_password_and_the_reverse() -> None:
    named = SchemaRegistry(url="https://registry.example:8081/prefix", username="firn")
    assert check_registry(named, "secret") == named
    with pytest.raises(Invalid, match="or neither"):
        check_registry(named, None)
