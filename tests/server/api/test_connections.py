"""Connections over HTTP: no answer has a password, and the database has it encrypted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from server.service.services import Services
from tests.schema_registry import running_registry
from tests.server.asgi import Client, client_of
from tests.server.default_settings import settings_in
from tests.server.kafka.fake import FakeClusters
from tests.server.lake import Lake

PASSWORD = "correct horse"
PLAIN = {"name": "plain", "brokers": ["kafka:9092"]}
SECURE = {
    "name": "secure",
    "kind": "kafka",
    "brokers": ["kafka:9092", "kafka-2:9092"],
    "security": "sasl-ssl",
    "mechanism": "SCRAM-SHA-512",
    "username": "firn",
    "password": PASSWORD,
}
AT = "/api/v1/connections"


@pytest.fixture
def services(plain_lake: Lake) -> Services:
    own = plain_lake.services
    connections = replace(own.connections, clusters=FakeClusters(passwords={"firn": PASSWORD}))
    for connection in connections.list():
        connections.drop(connection.name)
    return replace(own, connections=connections)


@pytest.fixture
def http(services: Services, plain_lake: Lake) -> Client:
    return client_of(services, settings_in(plain_lake.warehouse.parent / "data"))


def test_a_connection_is_created_listed_checked_and_dropped(http: Client, services: Services) -> None:
    created = http.post(AT, json=SECURE)
    assert created.status_code == 201, created.text
    assert http.post(AT, json=PLAIN).json()["has_password"] is False
    assert [shown["name"] for shown in http.get(AT).json()] == ["plain", "secure"]
    shown = http.get(f"{AT}/secure").json()
    assert (shown["has_password"], shown["username"], shown["mechanism"]) == (True, "firn", "SCRAM-SHA-512")
    assert http.post(f"{AT}/secure/check").json() == {
        "cluster": "fake",
        "brokers": 1,
        "topics": 0,
        "subjects": None,
    }
    for answer in (created, http.get(AT), http.get(f"{AT}/secure")):
        assert PASSWORD not in answer.text
        assert "sealed" not in answer.text
    stored = services.connections.get("secure")
    assert stored.sealed_password is not None
    assert PASSWORD not in stored.sealed_password
    assert services.connections.reveal_password(stored) == PASSWORD
    assert http.delete(f"{AT}/secure").status_code == 204
    assert http.get(f"{AT}/secure").status_code == 404
    assert http.delete(f"{AT}/secure").status_code == 404


def test_a_password_cannot_be_moved_to_another_connection(services: Services, http: Client) -> None:
    """Whoever writes to the database could send it to brokers of theirs."""
    http.post(AT, json=SECURE)
    moved = replace(services.connections.get("secure"), name="evil", brokers=("evil:9092",))
    with services.database.writing() as uow:
        uow.connections.add(moved)
    refused = http.post(f"{AT}/evil/check")
    assert (refused.status_code, "cannot be decrypted" in refused.text) == (400, True)


def test_clusters_that_refuse_or_do_not_answer(http: Client) -> None:
    http.post(AT, json={**SECURE, "password": "wrong"})
    http.post(AT, json={**PLAIN, "brokers": ["gone:9092"]})
    refused = http.post(f"{AT}/secure/check")
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
    assert http.post(f"{AT}/plain/check").status_code == 503
    assert http.post(f"{AT}/nothing/check").status_code == 404


def test_a_connection_may_have_a_schema_registry(http: Client, services: Services) -> None:
    with running_registry(("reader", PASSWORD)) as registry:
        registry.register("orders-value", "string")
        named = {"registry_url": registry.url, "registry_username": "reader", "registry_password": PASSWORD}
        created = http.post(AT, json={**PLAIN, **named})
        assert created.status_code == 201, created.text
        shown = http.get(f"{AT}/plain").json()
        assert (shown["registry_url"], shown["has_registry_password"]) == (registry.url, True)
        assert PASSWORD not in created.text + http.get(AT).text
        stored = services.connections.get("plain").registry
        assert stored is not None
        assert PASSWORD not in (stored.sealed_password or PASSWORD)
        assert http.post(f"{AT}/plain/check").json()["subjects"] == 1
        assert http.get(f"{AT}/plain/schemas/1").json() == {"id": 1, "texts": ['"string"']}
        unknown = http.get(f"{AT}/plain/schemas/2")
        assert (unknown.status_code, PASSWORD in unknown.text) == (404, False)
        for number, status in (("-1", 422), (str(2**31), 422), ("1x", 422), ("..%2Fsubjects", 422)):
            assert http.get(f"{AT}/plain/schemas/{number}").status_code == status, number
    for gone in (http.post(f"{AT}/plain/check"), http.get(f"{AT}/plain/schemas/3")):
        assert (gone.status_code, "does not answer" in gone.text) == (503, True)
    assert http.get(f"{AT}/nothing/schemas/1").status_code == 404
    http.post(AT, json=SECURE | {"password": PASSWORD})
    without = http.get(f"{AT}/secure/schemas/1")
    assert (without.status_code, "has no schema registry" in without.text) == (400, True)


@pytest.mark.parametrize(
    "registry",
    [
        {"registry_url": "http://169.254.169.254"},
        {"registry_url": "ftp://registry"},
        {"registry_username": "reader"},
        {"registry_password": PASSWORD},
        {"registry_url": "http://registry", "registry_username": "reader"},
        {"registry_url": "http://registry", "registry_password": PASSWORD},
    ],
)
def test_bad_registries_are_refused(http: Client, registry: dict[str, str]) -> None:
    refused = http.post(AT, json={**PLAIN, **registry})
    assert (refused.status_code, PASSWORD in refused.text) == (400, False), refused.text


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"name": "a/b"}, 400),
        ({"brokers": []}, 400),
        ({"brokers": ["169.254.169.254:80"]}, 400),
        ({"brokers": "kafka:9092"}, 422),
        ({"security": "SASL_SSL"}, 422),
        ({"kind": "pulsar"}, 422),
        ({"password": None}, 400),
        ({"ca": "/etc/passwd"}, 400),
        ({"ssl.ca.location": "/etc/passwd"}, 422),
    ],
)
def test_bad_values_are_refused_and_passwords_not_repeated(http: Client, changes: dict[str, Any], status: int) -> None:
    refused = http.post(AT, json={**SECURE, **changes})
    assert refused.status_code == status, refused.text
    assert PASSWORD not in refused.text
    assert http.get(AT).json() == []


def test_a_name_is_taken_once(http: Client) -> None:
    assert http.post(AT, json=PLAIN).status_code == 201
    assert http.post(AT, json=PLAIN).status_code == 409
