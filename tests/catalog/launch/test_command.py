"""Launches as command lines, files and pods, word for word; nothing in them can become more than the word it is."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from catalog.launch.command import LaunchPaths, build_command, build_driver_pod, format_properties
from catalog.launch.settings import DeployMode, Launch, LaunchId, LaunchKind

PLACE = LaunchPaths(
    server="http://127.0.0.1:8630",
    python="/usr/bin/python3",
    spark_submit="spark-submit",
    application="/opt/firn/optimizer/__main__.py",
    directory="/data/optimizers/nightly-1",
)
ID = LaunchId("nightly-1")
LOCAL = Launch(kind=LaunchKind.LOCAL, slots=3, memory="3g", environment={"TZ": "UTC", "NAME": "{firn.launch}"})
YARN = Launch(
    kind=LaunchKind.SPARK_SUBMIT,
    master="yarn",
    deploy_mode=DeployMode.CLUSTER,
    memory="4g",
    slots=8,
    conf={"spark.yarn.queue": "{firn.group}", "spark.driver.extraJavaOptions": "-Da='b c' -Dd=#e"},
    environment={"TZ": "UTC"},
    py_files=("hdfs:///firn/firn.zip", "hdfs:///firn/more.zip"),
    application="hdfs:///firn/main.py",
)
OF_OPTIMIZER = ["--server", "http://127.0.0.1:8630", "--group", "nightly", "--slots"]


def test_a_local_optimizer_is_a_module_of_this_installation_tied_to_the_server() -> None:
    made = build_command(LOCAL, group="nightly", launch_id=ID, paths=PLACE, token="firn_secret")
    assert list(made.arguments) == [
        *("/usr/bin/python3", "-P", "-m", "optimizer"),
        *(*OF_OPTIMIZER, "3", "--launch", "nightly-1", "--tied"),
        *("--master", "local[*]", "--driver-memory", "3g"),
    ]
    assert made.environment == {"TZ": "UTC", "NAME": "nightly-1", "FIRN_TOKEN": "firn_secret"}
    assert made.files == {}


def test_a_local_optimizers_spark_settings_reach_pyspark_as_single_words() -> None:
    conf = {"spark.driver.extraJavaOptions": "-Da='b c' \"d\" $(touch x)"}
    made = build_command(replace(LOCAL, conf=conf), group="g", launch_id=ID, paths=PLACE, token=None)
    assert shlex.split(made.environment["PYSPARK_SUBMIT_ARGS"]) == [
        "--conf",
        "spark.driver.extraJavaOptions=-Da='b c' \"d\" $(touch x)",
        "pyspark-shell",
    ]


def test_on_yarn_the_token_and_the_settings_are_in_a_file_and_not_on_the_command_line() -> None:
    made = build_command(YARN, group="nightly", launch_id=ID, paths=PLACE, token="firn_secret")
    assert list(made.arguments) == [
        *("spark-submit", "--master", "yarn", "--deploy-mode", "cluster", "--name", "firn-optimizer-nightly-nightly-1"),
        *("--driver-memory", "4g", "--properties-file", "/data/optimizers/nightly-1/spark.conf"),
        "--load-spark-defaults",
        *("--py-files", "hdfs:///firn/firn.zip,hdfs:///firn/more.zip", "hdfs:///firn/main.py"),
        *(*OF_OPTIMIZER, "8", "--launch", "nightly-1"),
    ]
    assert made.environment == {}
    assert made.files == {
        "spark.conf": (
            "spark.driver.extraJavaOptions=-Da\\='b\\ c'\\ -Dd\\=\\#e\n"
            "spark.yarn.appMasterEnv.FIRN_TOKEN=firn_secret\n"
            "spark.yarn.appMasterEnv.TZ=UTC\n"
            "spark.yarn.queue=nightly\n"
            "spark.yarn.submit.waitAppCompletion=true\n"
        )
    }


def test_on_kubernetes_the_driver_gets_an_image_a_namespace_and_a_pod_of_ours() -> None:
    launch = replace(YARN, master="k8s://https://10.0.0.1:6443", image="registry/firn:1", namespace="lake", conf={})
    made = build_command(launch, group="nightly", launch_id=ID, paths=PLACE, token="firn_secret")
    assert made.files["spark.conf"] == (
        "spark.kubernetes.container.image=registry/firn\\:1\n"
        "spark.kubernetes.driver.podTemplateFile=/data/optimizers/nightly-1/driver-pod.json\n"
        "spark.kubernetes.driverEnv.FIRN_TOKEN=firn_secret\n"
        "spark.kubernetes.driverEnv.TZ=UTC\n"
        "spark.kubernetes.namespace=lake\n"
        "spark.kubernetes.submission.waitAppCompletion=true\n"
    )
    assert json.loads(made.files["driver-pod.json"]) == {
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
    launch = replace(YARN, master="k8s://x", conf=conf)
    made = build_command(launch, group="g", launch_id=ID, paths=PLACE, token="firn_secret")
    assert "firn_secret" not in "".join([*made.files.values(), *made.arguments, *made.environment.values()])


def test_in_client_mode_the_token_is_in_the_environment_alone() -> None:
    launch = replace(YARN, deploy_mode=DeployMode.CLIENT)
    made = build_command(launch, group="g", launch_id=ID, paths=PLACE, token="firn_secret")
    assert made.arguments[-1] == "--tied"
    assert made.environment == {"TZ": "UTC", "FIRN_TOKEN": "firn_secret"}
    assert "firn_secret" not in "".join([*made.files.values(), *made.arguments])


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
