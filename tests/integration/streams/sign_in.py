"""A second address of the tests' broker, at which clients sign in with a user and a password."""

from __future__ import annotations

from dataclasses import dataclass

from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from firn.embedded.ports import LOOPBACK
from tests.integration.streams.topics import SECONDS

_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required;"


@dataclass(frozen=True)
class SignIn:
    """What a client needs at that address."""

    brokers: str
    user: str = "fay"
    password: str = 'it\'s "a\\b"; x=1'
    """Characters that the settings of Kafka's clients would take for their own."""
    mechanism: str = "SCRAM-SHA-512"


def build_settings(port: int, controller: int, signed: int) -> dict[str, str]:
    """The broker's settings for its plain address, its own one, and the one where clients sign in."""
    shown = f"PLAINTEXT://{LOOPBACK}:{port},SIGNED://{LOOPBACK}:{signed}"
    return {
        "listeners": f"{shown},CONTROLLER://{LOOPBACK}:{controller}",
        "advertised.listeners": shown,
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SIGNED:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": SignIn.mechanism,
        f"listener.name.signed.{SignIn.mechanism.lower()}.sasl.jaas.config": _LOGIN,
    }


def create_user(brokers: str, sign_in: SignIn) -> None:
    """Create the user, at the plain address."""
    credential = UserScramCredentialUpsertion(
        sign_in.user, ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), sign_in.password.encode()
    )
    admin = AdminClient({"bootstrap.servers": brokers})
    for created in admin.alter_user_scram_credentials([credential]).values():
        created.result(SECONDS)
