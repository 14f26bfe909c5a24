"""What may be set for a group's launches, and what is refused before anything is started."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.errors import Invalid
from catalog.launch.settings import DeployMode, Launch, LaunchKind, Scaling, check_launch
from catalog.launch.value_checks import fill_variables

SUBMIT = LaunchKind.SPARK_SUBMIT


@pytest.mark.parametrize(
    "launch",
    [
        Launch(),
        Launch(kind=LaunchKind.LOCAL, memory_limit=2**30, conf={"spark.sql.shuffle.partitions": "4"}),
        Launch(kind=SUBMIT, master="yarn", deploy_mode=DeployMode.CLUSTER, environment={"A": "it's {firn.group}"}),
        Launch(
            kind=SUBMIT, master="k8s://https://10.0.0.1", image="r/firn:1", namespace="lake", py_files=("s3://b/f",)
        ),
        Launch(kind=SUBMIT, master="local[2]"),
        Launch(
            kind=SUBMIT, master="yarn", queue="root.etl.{firn.group}", principal="firn/h.x@R.X", keytab="/k/firn.keytab"
        ),
        Launch(
            kind=SUBMIT, master="yarn", proxy_user="ann", archive="hdfs://prod/firn.zip", file_systems=("hdfs://b",)
        ),
        Launch(
            kind=SUBMIT,
            master="k8s://x",
            deploy_mode=DeployMode.CLUSTER,
            image="r:5000/firn@sha256:0",
            namespace="lake",
            service_account="firn",
            application="local:///opt/firn/optimizer/__main__.py",
        ),
    ],
)
def test_what_can_work_is_taken(launch: Launch) -> None:
    assert check_launch(launch) == launch


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"scaling": Scaling(minimum=2, maximum=1)}, "bounds rise"),
        ({"scaling": Scaling(maximum=10**6)}, "bounds rise"),
        ({"scaling": Scaling(start_seconds=0)}, "start_seconds"),
        ({"scaling": Scaling(max_attempts=0)}, "max_attempts"),
        ({"slots": 0}, "0 slots"),
        ({"streams": 257}, "257 streams: 0 to 256"),
        ({"sql": 257}, "0 to 256 queries"),
        ({"sql": -1}, "0 to 256 queries"),
        ({"kind": LaunchKind.SPARK_SUBMIT, "streams": 1}, "jars names none"),
        ({"memory": "2 gigabytes"}, "memory size"),
        ({"memory": "2g --class Evil"}, "memory size"),
        ({"memory_limit": 0}, "above 0"),
        ({"conf": {"hive.x": "1"}}, "begin with spark"),
        ({"conf": {"spark.a=b\nspark.c": "1"}}, "no setting of Spark"),
        ({"conf": {"spark.master": "yarn"}}, "field of its own"),
        ({"conf": {"spark.a": "one\nspark.b=two"}}, "more than one line"),
        ({"conf": {"spark.a": "{firn.gruop}"}}, r"there are \{firn.group\}"),
        ({"environment": {"A B": "1"}}, "environment variable"),
        ({"environment": {"FIRN_TOKEN": "x"}}, "nobody may read it"),
        ({"kind": SUBMIT, "master": "--class=Evil"}, "taken for an option"),
        ({"kind": SUBMIT, "master": "yarn", "application": "--conf"}, "taken for an option"),
        ({"kind": SUBMIT, "master": "yarn", "py_files": ("a,b",)}, "give py_files as a list"),
        ({"kind": SUBMIT, "master": "yarn", "namespace": "lake"}, "only a master k8s"),
        ({"kind": SUBMIT, "master": "yarn", "image": "i"}, "only a master k8s"),
        ({"kind": SUBMIT, "master": "k8s://x", "namespace": "Not A Label"}, "no namespace"),
        ({"kind": SUBMIT, "master": "local[2]", "deploy_mode": DeployMode.CLUSTER}, "no cluster"),
        ({"kind": LaunchKind.LOCAL, "master": "yarn"}, "local master"),
        ({"kind": LaunchKind.LOCAL, "jars": ("/a.jar",)}, "only kind spark-submit"),
        ({"kind": LaunchKind.LOCAL, "queue": "etl"}, "only a master yarn has queue"),
        ({"kind": SUBMIT, "master": "k8s://x", "queue": "etl"}, "only a master yarn has queue"),
        ({"kind": SUBMIT, "master": "yarn", "service_account": "a"}, "only a master k8s"),
        ({"kind": SUBMIT, "master": "spark://h:1", "keytab": "/k", "principal": "p"}, "only a master yarn or k8s"),
        ({"kind": SUBMIT, "master": "yarn", "keytab": "/k"}, "need each other"),
        ({"kind": SUBMIT, "master": "yarn", "principal": "p"}, "need each other"),
        ({"proxy_user": "ann", "keytab": "/k", "principal": "p"}, "proxy_user excludes keytab"),
        ({"kind": SUBMIT, "master": "k8s://x", "deploy_mode": DeployMode.CLUSTER}, "set application"),
        ({"conf": {"spark.yarn.queue": "etl"}}, "field of its own: queue"),
        ({"conf": {"spark.yarn.keytab": "/k"}}, "field of its own: keytab"),
        ({"archive": "hdfs:///firn.whl"}, "no archive"),
        ({"archive": "hdfs:///firn.zip#else"}, "has a #"),
        ({"file_systems": ("prod",)}, "no file system"),
        ({"master": "yarn-cluster"}, "no master"),
    ],
)
def test_what_cannot_work_is_refused_with_a_reason(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(Invalid, match=words):
        check_launch(Launch(**changes))


def test_what_replaces_a_variable_is_not_looked_at_again() -> None:
    assert (
        fill_variables("{firn.group}-{firn.launch}-{x}", {"group": "{firn.launch}", "launch": "l"})
        == "{firn.launch}-l-{x}"
    )


NAMED = [
    "master",
    "application",
    "archive",
    "queue",
    "principal",
    "keytab",
    "proxy_user",
    "image",
    "namespace",
    "service_account",
]
HOSTILE = [
    "", "--conf", "a b", "a\tb", "a\nspark.b=c", "a\r", "a\0", "a\x1b[2J", "a\u2028b", "a\ud800", "a'b", 'a"b', "a`b`",
    "a\\b", "a" * 2_001, "{firn.password}",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("name", NAMED)
def test_a_hostile_value_is_refused_and_quoted_without_control_characters(name: str, text: str) -> None:
    with pytest.raises(Invalid) as refused:
        check_launch(Launch(**{name: text}))  # type: ignore[arg-type]  # the names are those of texts
    assert refused.value.message.isprintable()
    assert len(refused.value.message) < 300


@pytest.mark.parametrize("text", [*HOSTILE, "a,b"])
@pytest.mark.parametrize("name", ["py_files", "jars", "file_systems"])
def test_a_hostile_value_in_a_list_is_refused(name: str, text: str) -> None:
    with pytest.raises(Invalid):
        check_launch(Launch(**{name: (text,)}))  # type: ignore[arg-type]  # the names are those of lists


@pytest.mark.parametrize("text", ["a\tb", "a\0", "a\x7f", "a\u2029", "a" * 20_001])
def test_spark_and_the_environment_get_no_control_characters(text: str) -> None:
    for changes in ({"conf": {"spark.a": text}}, {"environment": {"A": text}}):
        with pytest.raises(Invalid, match=r"the value of (spark\.a|A) has"):
            check_launch(Launch(**changes))  # type: ignore[arg-type]  # the names are those of maps
