"""A catalog's properties about its storage."""

from __future__ import annotations

import pytest

from catalog.credentials.storage_config import StorageConfig, Vending
from catalog.errors import Invalid

ROLE = "arn:aws:iam::123456789012:role/lake"


def test_without_properties_nobody_is_given_anything() -> None:
    config = StorageConfig.of({"firn.drop.retention": "7 d"})
    assert config == StorageConfig()
    assert not config.hands_out


def test_properties_are_read() -> None:
    config = StorageConfig.of(
        {
            "firn.storage.vending": "sts",
            "firn.storage.s3.role-arn": ROLE,
            "firn.storage.s3.endpoint": "http://127.0.0.1:9000/",
            "firn.storage.s3.region": "eu-central-1",
            "firn.storage.s3.path-style": "true",
        }
    )
    assert config.vending is Vending.STS
    assert config.hints == {
        "s3.endpoint": "http://127.0.0.1:9000",
        "s3.region": "eu-central-1",
        "client.region": "eu-central-1",
        "s3.path-style-access": "true",
    }


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"firn.storage.vending": "all"}, "none, static, sts"),
        ({"firn.storage.vending": "sts"}, "role-arn"),
        ({"firn.storage.remote-signing": "yes"}, "true or false"),
        ({"firn.storage.s3.secret-access-key": "x"}, "never properties"),
        ({"firn.storage.s3.endpoint": "http://a@b"}, "expected http"),
        ({"firn.storage.s3.endpoint": "http://b/path"}, "expected http"),
        ({"firn.storage.s3.endpoint": "ftp://b"}, "expected http"),
        ({"firn.storage.s3.endpoint": "http://b:99999999"}, "expected http"),
        ({"firn.storage.s3.endpoint": "HTTP://B"}, "expected http"),
        ({"firn.storage.s3.region": "eu central"}, "eu-central-1"),
        ({"firn.storage.s3.role-arn": "lake"}, "arn:"),
        ({"firn.storage.s3.session-seconds": "60"}, "from 900 to 43200"),
        ({"firn.storage.s3.session-seconds": "soon"}, "from 900 to 43200"),
    ],
)
def test_what_does_not_make_sense_is_refused(properties: dict[str, str], message: str) -> None:
    with pytest.raises(Invalid) as refusal:
        StorageConfig.of(properties)
    assert message in f"{refusal.value.message} {refusal.value.hint}"
