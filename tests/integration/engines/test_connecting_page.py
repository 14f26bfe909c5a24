"""docs/connecting.md, run as it stands there: the blocks of every engine that can be had here."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from pyspark import __version__ as pyspark_version

import firn
from firn.embedded.pyspark_jars import pyspark_jar
from firn.spark.jars import ICEBERG_RUNTIME
from firn.spark.sessions import EXTENSIONS, catalog_conf
from tests.integration.engines.duck import duckdb
from tests.integration.engines.flink import HADOOP, Flink
from tests.integration.engines.flink import RUNTIME as FLINK_RUNTIME
from tests.integration.engines.iceberg_go import SOURCES, run_go
from tests.integration.engines.keyed_answers import Sample
from tests.integration.engines.keyed_gaps import ENGINES
from tests.integration.engines.keyed_kinds import SCHEMA, build_samples
from tests.integration.engines.keyed_reads import (
    LIBRARIES,
    Verdicts,
    list_expected,
    list_questioned,
    nested,
    read_by_duckdb,
    read_by_firn,
    read_by_go,
    read_by_libraries,
    read_by_sql,
    shorten,
)
from tests.integration.engines.python_engines import run_python
from tests.integration.engines.spark import RUNTIME_3_5, Spark
from tests.integration.engines.trino import Trino
from tests.integration.engines.trino_files import VERSION as TRINO
from tests.s3_fixtures import client_of_s3, s3_server
from tests.spark_fixtures import ServerProcess, server_process, shared_spark

HERE = Path(__file__).parent
PAGE = (HERE.parents[2] / "docs" / "connecting.md").read_text(encoding="utf-8")
SPARKS = {"Spark 4.1": "spark_latest", "Spark 3.5": "spark_older"}
OPEN, GUARDED = "http://127.0.0.1:8630", "https://firn.example.org"
_numbers = count(1)


def blocks(engine: str, language: str) -> list[str]:
    """The blocks in a language in an engine's part of the page: first without access control, then by a credential,
    then by a token."""
    (part,) = re.findall(rf"^## {engine}\n(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)
    return re.findall(rf"^```{language}\n(.*?)^```$", part, re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Servers:
    """One open, one with access control on which the service `etl` may do everything in the catalog."""

    open: ServerProcess
    guarded: ServerProcess
    secret: str

    def real(self, block: str) -> str:
        """The block with addresses and secrets that exist."""
        token = self.guarded.first_token
        assert token is not None
        named = block.replace(OPEN, self.open.url).replace(GUARDED, self.guarded.url)
        for before in ("etl:", "CLIENT_SECRET '"):
            named = named.replace(f"{before}firn_…", f"{before}{self.secret}")
        return named.replace("firn_…", token)


@pytest.fixture(scope="module")
def servers(on_sqlite: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    data_dir = tmp_path_factory.mktemp("guarded") / "data"
    with (
        server_process(data_dir, FIRN_ACCESS__ENABLED="true") as guarded,
        firn.connect(guarded.url, token=guarded.first_token) as admin,
    ):
        admin.access.create_role("etl")
        admin.access.grant("etl", ["read", "write", "create", "drop"], catalog="lake")
        secret = admin.access.create_service("etl")["client_secret"]
        admin.access.assign("etl", "etl")
        yield Servers(on_sqlite, guarded, secret)


def test_the_page_names_the_versions_that_are_tried() -> None:
    for runtime in (ICEBERG_RUNTIME, RUNTIME_3_5, FLINK_RUNTIME):
        assert f"`{':'.join(runtime)}`" in PAGE
    locks = {name: (HERE / f"{name}.lock").read_text(encoding="utf-8") for name in ("spark-3.5", "duckdb", "flink")}
    (older,) = re.findall(r"^pyspark==(\S+)", locks["spark-3.5"], re.MULTILINE)
    (duck,) = re.findall(r"^duckdb==(\S+)", locks["duckdb"], re.MULTILINE)
    assert f"{pyspark_version} and {older}, Iceberg {ICEBERG_RUNTIME[2]}" in PAGE
    assert f"| {duck} |" in PAGE
    (flink,) = re.findall(r"^apache-flink-libraries==(\S+)", locks["flink"], re.MULTILINE)
    assert f"{flink}, Iceberg {FLINK_RUNTIME[2]} |" in PAGE
    for pattern in HADOOP:
        assert f"`org.apache.hadoop:{pyspark_jar(pattern).stem.replace('-3', ':3')}`" in PAGE
    assert f"| [Trino](#trino) | run by the tests | {TRINO} |" in PAGE
    (go,) = re.findall(r"iceberg-go v(\S+)", (SOURCES / "go.mod").read_text(encoding="utf-8"))
    assert f"| [iceberg-go](#iceberg-go) | run by the tests | {go} |" in PAGE
    libraries = (HERE / "python-engines.lock").read_text(encoding="utf-8")
    for name, version in re.findall(r"^(polars|daft|dlt)==(\S+)", libraries, re.MULTILINE):
        row = rf"^\| \[{name}\]\(#{name}\) \| run by the tests \| {re.escape(version)} \|"
        assert re.search(row, PAGE, re.MULTILINE | re.IGNORECASE)


def test_the_options_of_spark_are_those_that_the_helpers_set() -> None:
    shown = dict(line.split("=", 1) for line in blocks("Spark", "properties")[0].splitlines())
    assert shown == {"spark.sql.extensions": EXTENSIONS, **catalog_conf(OPEN, "lake")}


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.parametrize("access", ["none", "credential", "token"])
def test_spark_connects_as_the_page_says(spark: Spark, servers: Servers, access: str) -> None:
    plain, credential, token = blocks("Spark", "properties")
    more = {"none": "", "credential": credential, "token": token}[access]
    # The session keeps a catalog as it first was: here each way of connecting has a name of its own.
    name = f"lake{next(_numbers)}"
    for line in servers.real(plain + more).splitlines():
        key, value = line.replace("spark.sql.catalog.lake", f"spark.sql.catalog.{name}").split("=", 1)
        if key != "spark.sql.extensions":
            spark.run(f"spark.conf.set({key!r}, {value!r})")
    (statements,) = blocks("Spark", "sql")
    results = [
        spark.rows(statement) for statement in statements.replace("lake.", f"{name}.").split(";") if statement.strip()
    ]
    assert [1, "10.00", "2026-11-20"] in results[-1]


@pytest.mark.parametrize("number", [0, 1, 2], ids=["none", "credential", "token"])
def test_pyiceberg_connects_as_the_page_says(servers: Servers, tmp_path: Path, number: int) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text(servers.real(blocks("PyIceberg", "yaml")[number]), encoding="utf-8")
    program = (
        "from pyiceberg.catalog import load_catalog\nload_catalog('lake').create_namespace_if_not_exists('seen')\n"
    )
    environment = {**os.environ, "PYICEBERG_HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment, timeout=120)
    server = servers.guarded if number else servers.open
    headers = {"Authorization": f"Bearer {servers.guarded.first_token}"}
    answer = server.http.get("/iceberg/v1/lake/namespaces", headers=headers)
    assert ["seen"] in answer.json()["namespaces"]


def test_pyiceberg_connects_in_python_as_the_page_says(servers: Servers) -> None:
    (shown,) = blocks("PyIceberg", "python")
    exec(servers.real(shown), {})


@pytest.mark.parametrize("number", [0, 1, 2], ids=["none", "credential", "token"])
def test_duckdb_connects_as_the_page_says(servers: Servers, number: int) -> None:
    statements = [server for server in servers.real(blocks("DuckDB", "sql")[number]).split(";") if server.strip()]
    output = duckdb(*statements)
    assert [answer for answer in output if isinstance(answer, str)] == []
    assert number or output[-1] == [[1, "first"]]


@pytest.mark.parametrize("library", ["Polars", "Daft"])
def test_a_library_that_uses_pyiceberg_connects_as_the_page_says(
    servers: Servers, tmp_path: Path, library: str
) -> None:
    (shown,) = blocks(library, "python")
    run_python(servers.real(shown), directory=tmp_path)


@pytest.mark.parametrize("guarded", [False, True], ids=["none", "credential"])
def test_dlt_connects_as_the_page_says(servers: Servers, tmp_path: Path, *, guarded: bool) -> None:
    plain, credential = blocks("dlt", "toml")
    (program,) = blocks("dlt", "python")
    server = servers.guarded if guarded else servers.open
    settings = plain.replace(OPEN, GUARDED) + credential if guarded else plain
    settings = servers.real(settings).replace("/srv/firn/warehouse", str(server.data_dir / "warehouse"))
    (tmp_path / ".dlt").mkdir()
    (tmp_path / ".dlt" / "secrets.toml").write_text(settings, encoding="utf-8")
    run_python(program, directory=tmp_path)
    headers = {"Authorization": f"Bearer {servers.guarded.first_token}"} if guarded else {}
    loaded = server.http.get("/iceberg/v1/lake/namespaces/dlt_web/tables/visits", headers=headers).json()
    assert loaded["metadata"]["snapshots"][0]["summary"]["total-records"] == "1"


@pytest.mark.parametrize("access", ["none", "credential", "token"])
def test_iceberg_go_connects_as_the_page_says(servers: Servers, access: str) -> None:
    server = servers.open if access == "none" else servers.guarded
    token = servers.guarded.first_token
    assert token is not None
    token_url = f"{server.url}/iceberg/v1/oauth/tokens"
    options: dict[str, dict[str, str]] = {
        "none": {},
        "credential": {"credential": f"etl:{servers.secret}", "token_url": token_url},
        "token": {"token": token},
    }
    run_go(server.url, options={"create": f"go_{access}", **options[access]})
    headers = {"Authorization": f"Bearer {token}"}
    answer = server.http.get("/iceberg/v1/lake/namespaces", headers=headers if access != "none" else {})
    assert [f"go_{access}"] in answer.json()["namespaces"]


def test_the_program_connects_with_the_calls_that_the_page_shows() -> None:
    (part,) = re.findall(r"^## iceberg-go\n(.*?)^## ", PAGE, re.MULTILINE | re.DOTALL)
    program = "".join(path.read_text(encoding="utf-8") for path in SOURCES.glob("*.go"))
    shown = {*re.findall(r"rest\.\w+|\w+\.LoadTable|ToArrowTable|AppendTable", part)}
    assert len(shown) > 4
    assert not [call for call in shown if call not in program]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("access", ["none", "credential", "token"])
def test_trino_connects_as_the_page_says(trino: Trino, servers: Servers, access: str) -> None:
    plain, local_files, credential, token, _ = blocks("Trino", "properties")
    lines = servers.real(plain + local_files + {"none": "", "credential": credential, "token": token}[access])
    name = f"lake{next(_numbers)}"
    trino.add_catalog(name, dict(line.split("=", 1) for line in lines.splitlines()))
    (statements,) = blocks("Trino", "sql")
    results = [
        trino.rows(statement) for statement in statements.replace("lake.", f"{name}.").split(";") if statement.strip()
    ]
    assert [1, "10.00", "2026-11-20"] in results[-1]


@pytest.mark.timeout(600)
def test_trino_reaches_tables_in_s3_as_the_page_says(trino: Trino, tmp_path: Path) -> None:
    with s3_server(tmp_path / "s3.log") as s3:
        client_of_s3(s3).create_bucket(Bucket="tables")
        own = {"s3.endpoint": s3, "s3.region": "us-east-1", "s3.access-key-id": "own", "s3.secret-access-key": "own"}
        with server_process(tmp_path / "data", FIRN_FILE_IO=json.dumps(own)) as server:
            with firn.connect(server.url) as admin:
                storage = {"endpoint": s3, "role-arn": "arn:aws:iam::123456789012:role/lake"}
                settings = {f"firn.storage.s3.{key}": value for key, value in storage.items()}
                admin.catalogs.create(
                    "vault", warehouse="s3://tables/wh", properties={"firn.storage.vending": "sts", **settings}
                )
            plain, *_, in_s3 = blocks("Trino", "properties")
            lines = dict(line.split("=", 1) for line in (plain + in_s3).replace(OPEN, server.url).splitlines())
            # Trino has no keys: what it does it does with those that the catalog hands out.
            here = {"s3.endpoint": s3, "s3.region": "us-east-1", "s3.path-style-access": "true"}
            trino.add_catalog("vault", {**lines, **here, "iceberg.rest-catalog.warehouse": "vault"})
            trino.rows("CREATE SCHEMA vault.shop")
            trino.rows("CREATE TABLE vault.shop.t AS SELECT 1 AS id")
            trino.rows("INSERT INTO vault.shop.t VALUES 2")
            assert trino.values("SELECT id FROM vault.shop.t ORDER BY id") == [1, 2]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", [0, 1, 2], ids=["none", "credential", "token"])
def test_flink_connects_as_the_page_says(flink: Flink, servers: Servers, number: int) -> None:
    *catalogs, work, keyed = blocks("Flink", "sql")
    session = flink.session()
    statements = servers.real(catalogs[number]) + work
    results = [session.rows(statement) for statement in statements.split(";") if statement.strip()]
    assert [1, "/", "2026-11-20"] in results[-1]
    if number == 0:
        session.sql(*(statement for statement in keyed.split(";") if statement.strip()))
        assert session.rows("SELECT * FROM web.pages") == [["/", 1]]


# --- keyed tables -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def samples(on_sqlite: ServerProcess) -> list[Sample]:
    session = shared_spark().newSession()
    for key, value in catalog_conf(on_sqlite.url, "lake").items():
        session.conf.set(key, value)
    return build_samples(session, on_sqlite.http)


@pytest.fixture(scope="module", params=["2", "3"], ids=["v2", "v3"])
def version(request: pytest.FixtureRequest, samples: list[Sample], on_sqlite: ServerProcess) -> str:
    """The format in which the tables are served."""
    wanted: str = request.param
    for sample in samples:
        path = f"/api/v1/catalogs/lake/tables/{'.'.join(sample.identifier)}/properties"
        on_sqlite.http.patch(path, json={"set": {"firn.read.format-version": wanted}}).raise_for_status()
        table = on_sqlite.http.get(f"/iceberg/v1/lake/namespaces/{SCHEMA}/tables/{sample.name}").json()
        assert str(table["metadata"]["format-version"]) == wanted
    return wanted


@pytest.fixture(scope="module")
def by_libraries(
    version: str, samples: list[Sample], on_sqlite: ServerProcess, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Verdicts]:
    """What the libraries of Python read, all in one process."""
    samples_by_library = {library: list_questioned(library, version, samples) for library in LIBRARIES}
    return read_by_libraries(samples_by_library, on_sqlite, tmp_path_factory.mktemp("libraries"))


@pytest.mark.spark
@pytest.mark.timeout(600)
@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_reads_of_keyed_tables_what_the_page_says(
    request: pytest.FixtureRequest, engine: str, version: str, samples: list[Sample], on_sqlite: ServerProcess
) -> None:
    questioned = list_questioned(engine, version, samples)
    if engine in LIBRARIES:
        verdicts = request.getfixturevalue("by_libraries")[engine]
    elif engine in SPARKS:
        spark: Spark = request.getfixturevalue(SPARKS[engine])
        spark.know(on_sqlite.url, "keyed_lake")
        verdicts = read_by_sql(questioned, spark.rows, lambda query: nested(query, "keyed_lake", ""), "STRING")
    elif engine == "Trino":
        trino: Trino = request.getfixturevalue("trino")
        plain, local_files, *_ = blocks("Trino", "properties")
        lines = (plain + local_files).replace(OPEN, on_sqlite.url).splitlines()
        name = f"lake{next(_numbers)}"
        trino.add_catalog(name, dict(line.split("=", 1) for line in lines))
        verdicts = read_by_sql(questioned, trino.rows, lambda query: nested(query, name))
    elif engine == "Flink":
        session = request.getfixturevalue("flink").session()
        session.sql(blocks("Flink", "sql")[0].replace(OPEN, on_sqlite.url).strip().rstrip(";"))
        verdicts = read_by_sql(questioned, session.rows, lambda query: nested(query, quote=""))
    else:
        read = {"DuckDB": read_by_duckdb, "iceberg-go": read_by_go, "client.scan": read_by_firn}[engine]
        verdicts = read(questioned, on_sqlite)
    assert shorten(engine, version, verdicts) == list_expected(engine, version, questioned)
