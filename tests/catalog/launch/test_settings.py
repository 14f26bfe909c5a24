"""What may be set for a group's launches, and what is refused before anything is started."""

from __future__ import annotations

from typing import Any

import pytest

from catalog.errors import Invalid
from catalog.launch.settings import DeployMode, Launch, LaunchKind, Scaling, check_launch, fill_variables

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
