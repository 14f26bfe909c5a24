"""Connections with values that a hostile or a careless user might give."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from catalog.errors import Invalid
from catalog.kafka.connection import Connection, check_connection, parse_brokers
from firn.protocol.connections import Mechanism, Security

PLAIN = Connection(name="main", brokers=("kafka-1:9092", "10.0.0.7:9092", "[2001:db8::1]:9092"))
SECURE = replace(PLAIN, security=Security.SASL_SSL, mechanism=Mechanism.SCRAM_SHA_512, username="firn")
CA = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"


def test_good_connections_pass() -> None:
    assert check_connection(PLAIN, None) == PLAIN
    assert check_connection(replace(SECURE, ca=f"{CA}\n{CA}"), "p w 'ü'") == replace(SECURE, ca=f"{CA}\n{CA}")
    assert parse_brokers("a:1, b:2") == ("a:1", "b:2")


@pytest.mark.parametrize("name", ["", ".", "-a", "a/b", "a b", "ü", "a\n", "a" * 129, "../x", "a%2Fb"])
def test_names_are_one_part_of_a_path(name: str) -> None:
    with pytest.raises(Invalid, match="is not a name for a connection"):
        check_connection(replace(PLAIN, name=name), None)


@pytest.mark.parametrize(
    "broker",
    [
        *("", "kafka", "kafka:", ":9092", "kafka:0", "kafka:65536", "kafka:٣", "kafka:9092,other:1", "kafka:1\n"),
        *(
            "http://kafka:9092",
            "u:p@kafka:9092",
            "kafka:9092/x",
            "ka fka:1",
            "-kafka:1",
            "kafka:9092 security.protocol=ssl",
        ),
        *("169.254.169.254:80", "[fe80::1]:9092", "0.0.0.0:9092", "[::ffff:169.254.1.1]:80", "a" * 255 + ":1"),
    ],
)
def test_brokers_are_addresses(broker: str) -> None:
    with pytest.raises(Invalid):
        check_connection(replace(PLAIN, brokers=("kafka:9092", broker)), None)


@pytest.mark.parametrize("brokers", [(), ("kafka:9092",) * 51])
def test_the_number_of_brokers_is_bounded(brokers: tuple[str, ...]) -> None:
    with pytest.raises(Invalid, match="names 1 to 50 brokers"):
        check_connection(replace(PLAIN, brokers=brokers), None)


@pytest.mark.parametrize(
    ("changes", "password"),
    [
        ({"mechanism": None}, "p"),
        ({"username": None}, "p"),
        ({"username": ""}, "p"),
        ({"username": "a\x00b"}, "p"),
        ({"username": "u" * 256}, "p"),
        ({}, None),
        ({}, ""),
        ({}, "a\nsasl.username=root"),
        ({}, "p" * 4097),
        ({"security": Security.SSL}, "p"),
        ({"security": Security.PLAINTEXT, "mechanism": None, "username": None}, "p"),
        ({"security": Security.SASL_PLAINTEXT, "ca": CA}, "p"),
        ({"ca": "/etc/ssl/certs/ca.pem"}, "p"),
        ({"ca": f"{CA}\n-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----"}, "p"),
        ({"ca": ""}, "p"),
        ({"ca": f"-----BEGIN CERTIFICATE-----\n{'A' * 50_000}\n-----END CERTIFICATE-----"}, "p"),
    ],
)
def test_values_that_do_not_fit_are_refused(changes: dict[str, Any], password: str | None) -> None:
    with pytest.raises(Invalid):
        check_connection(replace(SECURE, **changes), password)


def test_no_representation_shows_the_password() -> None:
    assert "hidden" not in repr(replace(SECURE, sealed_password="hidden"))
