"""Launches as command lines, files and pods, word for word; nothing in them can become more than the word it is."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.errors import Invalid
from catalog.launch.command import LaunchPaths, build_command, build_driver_pod, format_properties, hide_secrets
from catalog.launch.settings import DeployMode, Launch, LaunchId, LaunchKind

PLACE = LaunchPaths(
    server="http://127.0.0.1:8630",
    python="/usr/bin/python3",
    spark_submit="spark-submit",
    application="/opt/firn/optimizer/__main__.py",
    directory="/data/optimizers/nightly-1",
    spark_home="/usr/lib/pyspark",
    node_python="python3.11",
    iceberg={"spark.jars": "/jars/iceberg.jar"},
)
ID = LaunchId("nightly-1")
LOCAL = Launch(kind=LaunchKind.LOCAL, slots=3, memory="3g", environment={"TZ": "UTC", "NAME": "{firn.launch}"})
YARN = Launch(
    kind=LaunchKind.SPARK_SUBMIT,
    master="yarn",
    deploy_mode=DeployMode.CLUSTER,
    memory="4g",
    slots=8,
    conf={"spark.a": "{firn.group}", "spark.driver.extraJavaOptions": "-Da='b c' -Dd=#e"},
    environment={"TZ": "UTC"},
    queue="{firn.group}",
    py_files=("hdfs:///firn/firn.zip", "hdfs:///firn/more.zip"),
    application="hdfs:///firn/main.py",
)
JAVA_IN_UTC = (
    "spark.driver.defaultJavaOptions=-Duser.timezone\\=UTC\nspark.executor.defaultJavaOptions=-Duser.timezone\\=UTC\n"
)
OF_OPTIMIZER = ["--server", "http://127.0.0.1:8630", "--group", "nightly", "--slots"]


def test_a_local_optimizer_is_a_module_of_this_installation_tied_to_the_server() -> None:
    command = build_command(LOCAL, group="nightly", launch_id=ID, paths=PLACE, token="firn_secret")
    assert list(command.arguments) == [
        *("/usr/bin/python3", "-P", "-m", "optimizer"),
        *(*OF_OPTIMIZER, "3", "--launch", "nightly-1", "--tied"),
        *("--master", "local[*]", "--driver-memory", "3g"),
    ]
    assert command.environment == {"TZ": "UTC", "NAME": "nightly-1", "FIRN_TOKEN": "firn_secret"}
    assert command.files == {}


def test_queries_and_streams_are_arguments_only_if_the_launch_has_some() -> None:
    command = build_command(replace(LOCAL, streams=2, sql=4), group="g", launch_id=ID, paths=PLACE, token=None)
    text = " ".join(command.arguments)
    assert " --streams 2 --sql 4 " in text
    submitted = build_command(replace(YARN, sql=1), group="g", launch_id=ID, paths=PLACE, token=None)
    assert list(submitted.arguments)[-2:] == ["--sql", "1"]


def test_a_local_optimizers_spark_settings_reach_pyspark_as_single_words() -> None:
    conf = {"spark.driver.extraJavaOptions": "-Da='b c' \"d\" $(touch x)"}
    command = build_command(replace(LOCAL, conf=conf), group="g", launch_id=ID, paths=PLACE, token=None)
    assert shlex.split(command.environment["PYSPARK_SUBMIT_ARGS"]) == [
        "--conf",
        "spark.driver.extraJavaOptions=-Da='b c' \"d\" $(touch x)",
        "pyspark-shell",
    ]


def test_on_yarn_the_token_and_the_settings_are_in_a_file_and_not_on_the_command_line() -> None:
    command = build_command(YARN, group="nightly", launch_id=ID, paths=PLACE, token="firn_secret")
    assert list(command.arguments) == [
        *("spark-submit", "--master", "yarn", "--deploy-mode", "cluster", "--name", "firn-optimizer-nightly-nightly-1"),
        *("--driver-memory", "4g", "--properties-file", "/data/optimizers/nightly-1/spark.conf"),
        "--load-spark-defaults",
        *("--py-files", "hdfs:///firn/firn.zip,hdfs:///firn/more.zip", "hdfs:///firn/main.py"),
        *(*OF_OPTIMIZER, "8", "--launch", "nightly-1"),
    ]
    assert command.environment == {"SPARK_HOME": "/usr/lib/pyspark"}
    assert command.files == {
        "spark.conf": (
            "spark.a=nightly\n"
            "spark.driver.defaultJavaOptions=-Duser.timezone\\=UTC\n"
            "spark.driver.extraJavaOptions=-Da\\='b\\ c'\\ -Dd\\=\\#e\n"
            "spark.executor.defaultJavaOptions=-Duser.timezone\\=UTC\n"
            "spark.jars=/jars/iceberg.jar\n"
            "spark.yarn.appMasterEnv.FIRN_TOKEN=firn_secret\n"
            "spark.yarn.appMasterEnv.PYSPARK_DRIVER_PYTHON=python3.11\n"
            "spark.yarn.appMasterEnv.PYSPARK_PYTHON=python3.11\n"
            "spark.yarn.appMasterEnv.TZ=UTC\n"
            "spark.yarn.maxAppAttempts=1\n"
            "spark.yarn.queue=nightly\n"
            "spark.yarn.submit.waitAppCompletion=true\n"
        )
    }


def test_on_kubernetes_the_driver_gets_an_image_a_namespace_and_a_pod_of_ours() -> None:
    launch = replace(
        YARN, master="k8s://https://10.0.0.1:6443", image="registry/firn:1", namespace="lake", conf={}, queue=None
    )
    command = build_command(launch, group="nightly", launch_id=ID, paths=PLACE, token="firn_secret")
    assert command.files["spark.conf"] == JAVA_IN_UTC + (
        "spark.kubernetes.container.image=registry/firn\\:1\n"
        "spark.kubernetes.driver.podTemplateFile=/data/optimizers/nightly-1/driver-pod.json\n"
        "spark.kubernetes.driverEnv.FIRN_TOKEN=firn_secret\n"
        "spark.kubernetes.driverEnv.TZ=UTC\n"
        "spark.kubernetes.namespace=lake\n"
        "spark.kubernetes.submission.waitAppCompletion=true\n"
    )
    assert json.loads(command.files["driver-pod.json"]) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "labels": {
                "app.kubernetes.io/name": "firn-optimizer",
                "firn/group": "nightly",
                "firn/launch": "nightly-1",
            },
            "namespace": "lake",
        },
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 60,
            "containers": [{"name": "spark-kubernetes-driver"}],
        },
    }


def test_a_token_that_kubernetes_keeps_as_a_secret_is_not_written_into_the_pod() -> None:
    conf = {"spark.kubernetes.driver.secretKeyRef.FIRN_TOKEN": "firn:token"}
    launch = replace(YARN, master="k8s://x", conf=conf, queue=None)
    command = build_command(launch, group="g", launch_id=ID, paths=PLACE, token="firn_secret")
    assert "firn_secret" not in "".join([*command.files.values(), *command.arguments, *command.environment.values()])


def test_in_client_mode_the_token_is_in_the_environment_alone() -> None:
    launch = replace(YARN, deploy_mode=DeployMode.CLIENT)
    command = build_command(launch, group="g", launch_id=ID, paths=PLACE, token="firn_secret")
    assert command.arguments[-1] == "--tied"
    pythons = {"PYSPARK_DRIVER_PYTHON": "/usr/bin/python3", "PYSPARK_PYTHON": "python3.11"}
    pythons["SPARK_HOME"] = "/usr/lib/pyspark"
    assert command.environment == {**pythons, "TZ": "UTC", "FIRN_TOKEN": "firn_secret"}
    assert "firn_secret" not in "".join([*command.files.values(), *command.arguments])


def build_conf(launch: Launch) -> dict[str, str]:
    return read_back(build_command(launch, group="g", launch_id=ID, paths=PLACE, token="t").files["spark.conf"])


def test_an_archive_is_unpacked_where_driver_and_executors_import_from() -> None:
    launch = replace(YARN, archive="hdfs:///firn/{firn.group}.zip", jars=("hdfs:///firn/a.jar", "hdfs:///firn/b.jar"))
    command = build_command(launch, group="g", launch_id=ID, paths=PLACE, token=None)
    arguments = list(command.arguments)
    assert arguments[arguments.index("--archives") + 1] == "hdfs:///firn/g.zip#firn"
    assert arguments[arguments.index("--jars") + 1] == "hdfs:///firn/a.jar,hdfs:///firn/b.jar"
    conf = read_back(command.files["spark.conf"])
    assert conf["spark.yarn.appMasterEnv.PYTHONPATH"] == conf["spark.executorEnv.PYTHONPATH"] == "firn"
    assert "spark.jars" not in conf
    client = build_command(
        replace(launch, deploy_mode=DeployMode.CLIENT), group="g", launch_id=ID, paths=PLACE, token=None
    )
    assert "PYTHONPATH" not in client.environment


def test_the_servers_iceberg_goes_to_drivers_that_see_the_servers_files() -> None:
    kubernetes = replace(YARN, master="k8s://x", queue=None)
    assert build_conf(YARN)["spark.jars"] == "/jars/iceberg.jar"
    assert "spark.jars" not in build_conf(kubernetes)
    assert build_conf(replace(kubernetes, deploy_mode=DeployMode.CLIENT))["spark.jars"] == "/jars/iceberg.jar"
    assert "spark.jars" not in build_conf(replace(YARN, conf={"spark.jars.packages": "a:b:1"}))


def test_an_operator_replaces_what_the_server_chooses() -> None:
    conf = build_conf(replace(YARN, environment={"PYSPARK_PYTHON": "/opt/py"}, conf={"spark.yarn.maxAppAttempts": "2"}))
    assert conf["spark.yarn.appMasterEnv.PYSPARK_PYTHON"] == "/opt/py"
    assert conf["spark.yarn.appMasterEnv.PYSPARK_DRIVER_PYTHON"] == "/opt/py"
    assert conf["spark.yarn.maxAppAttempts"] == "2"


def test_a_principal_with_its_keytab_or_another_user_reaches_spark() -> None:
    kerberos = {"principal": "firn/h@R", "keytab": "/k", "file_systems": ("hdfs://a", "hdfs://b")}
    conf = build_conf(replace(YARN, **kerberos))  # type: ignore[arg-type]  # texts and a tuple
    assert conf["spark.kerberos.principal"] == "firn/h@R"
    assert conf["spark.kerberos.keytab"] == "/k"
    assert conf["spark.kerberos.access.hadoopFileSystems"] == "hdfs://a,hdfs://b"
    command = build_command(replace(YARN, proxy_user="ann"), group="g", launch_id=ID, paths=PLACE, token=None)
    arguments = list(command.arguments)
    assert arguments[arguments.index("--proxy-user") + 1] == "ann"


def test_users_read_a_command_without_secrets() -> None:
    secrets = {"spark.hadoop.fs.s3a.secret.key": "s", "spark.ssl.keyPassword": "s", "spark.a.token": "s"}
    kept = {"spark.kubernetes.driver.secretKeyRef.FIRN_TOKEN": "name:key", "spark.b": "c"}
    hidden = hide_secrets(replace(YARN, conf=secrets | kept, environment={"AWS_SECRET_ACCESS_KEY": "s"}))
    assert hidden.conf == dict.fromkeys(secrets, "(hidden)") | kept
    assert hidden.environment == {"AWS_SECRET_ACCESS_KEY": "(hidden)"}


def test_a_group_that_users_staff_has_no_command() -> None:
    with pytest.raises(Invalid, match="users start the optimizers of group g"):
        build_command(Launch(), group="g", launch_id=ID, paths=PLACE, token=None)


def test_a_groups_name_makes_a_label_that_kubernetes_takes() -> None:
    labels = json.loads(build_driver_pod(YARN, group="_Night-", launch_id="l"))["metadata"]["labels"]
    assert labels["firn/group"] == "Night"


def read_back(text: str) -> dict[str, str]:
    """Java's Properties.load, as its documentation describes it, for what one line can hold."""
    values = {}
    for line in text.splitlines():
        parts: list[str] = [""]
        at = 0
        while at < len(line):
            character = line[at]
            if character == "\\" and line[at + 1] == "u":
                parts[-1] += chr(int(line[at + 2 : at + 6], 16))
                at += 6
            elif character == "\\":
                parts[-1] += {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(line[at + 1], line[at + 1])
                at += 2
            elif character in "=: " and len(parts) == 1:
                parts.append("")
                at += 1
            else:
                assert character not in "#!" or parts != [""]
                parts[-1] += character
                at += 1
        key, value = parts
        values[key.encode("utf-16", "surrogatepass").decode("utf-16")] = value.encode("utf-16", "surrogatepass").decode(
            "utf-16"
        )
    return values


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_whatever_a_setting_holds_java_reads_the_same(settings: dict[str, str]) -> None:
    assert read_back(format_properties(settings)) == settings
