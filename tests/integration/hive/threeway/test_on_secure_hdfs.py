"""The history of three ways on a cluster with Kerberos, whose KDC is away for a while besides; `make soak` alone.

Hive's users, the server and its metastore authenticate, and what they send is encrypted. The server has a principal of
its own, whose tickets last half a minute.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.hive_engine import HiveEngine
from tests.integration.hdfs.daemons import Daemons
from tests.integration.hive.threeway.outages import SECURE_OUTAGES, TICKET_SECONDS
from tests.integration.hive.threeway.test_on_hdfs import take_histories
from tests.integration.hive.threeway.test_three_ways import SOAK_SECONDS
from tests.integration.hive.threeway.world import World, a_world
from tests.integration.kerberos.cluster import HIVE, SECURITY, SecureMetastore
from tests.integration.kerberos.realm import NAME, Realm
from tests.integration.kerberos.secure_daemons import secure_daemons

SERVER = f"firn/server@{NAME}"
pytestmark = [
    *(pytest.mark.spark, pytest.mark.hive, pytest.mark.model, pytest.mark.timeout(3600 + SOAK_SECONDS)),
    pytest.mark.skipif("SOAK_SECONDS" not in os.environ, reason="a cluster of seven processes is for `make soak`"),
]
OF_SPARK = {
    "spark.hadoop.hive.metastore.sasl.enabled": "true",
    "spark.hadoop.hive.metastore.kerberos.principal": HIVE,  # Java does not find `localhost` for _HOST at 127.0.0.1
    "spark.hadoop.hadoop.rpc.protection": "privacy",  # as the metastore has it; the name node takes all
}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("secure")
    with secure_daemons(directory) as (realm, hdfs):
        realm.add(HIVE)
        realm.add(SERVER, lifetime=f"{TICKET_SECONDS} seconds")
        with SecureMetastore(directory / "metastore", realm, realm.export("hive.keytab", HIVE)) as metastore:
            engine = HiveEngine(metastore.uri, directory / "engine", OF_SPARK)
            try:
                settings = settings_of_server(realm, hdfs)
                with a_world(
                    metastore, engine, directory, hdfs, realm=realm, security=SECURITY, settings=settings
                ) as running:
                    yield running
            finally:
                engine.close()


def settings_of_server(realm: Realm, hdfs: Daemons) -> dict[str, str]:
    """Its settings name the keytab, and win over the environment."""
    return {
        **realm.environment,
        "FIRN_HADOOP__CONF_DIR": str(hdfs.conf_dir),
        "FIRN_HADOOP__PRINCIPAL": SERVER,
        "FIRN_HADOOP__KEYTAB": str(realm.export("server.keytab", SERVER)),
        "FIRN_HIVE__AUTHENTICATION": "kerberos",
        "FIRN_HIVE__KERBEROS_PRINCIPAL": f"hive/_HOST@{NAME}",
        "KRB5CCNAME": "FILE:/nowhere",
        "KRB5_CLIENT_KTNAME": "FILE:/nowhere",
    }


def test_hive_firn_and_the_oracle_agree_while_the_kdc_comes_and_goes(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    take_histories(world, len(SECURE_OUTAGES), capsys)
