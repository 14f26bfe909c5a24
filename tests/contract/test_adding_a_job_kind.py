"""What adding a kind of job touches: docs/adding-a-job-kind.md is applied to a copy of the code, and the kind runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

from catalog.jobs.job import JobKind

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "adding-a-job-kind.md"
PACKAGES = ("catalog", "server", "optimizer", "firn", "migrations")

NAMED_ELSEWHERE = {
    # The commit rules of keyed tables: who may move the watermark, clean, pack, expire and delete.
    "catalog/keyed/store_commit.py": {
        "MERGE",
        "SYNC",
        "TTL",
        "CLEAN",
        "COMPACT",
        "REWRITE_MANIFESTS",
        "EXPIRE",
        "KEYS",
    },
    "catalog/commits/commit_rules.py": {"CONVERT"},
    # What a count of keys has found is shown with the table.
    "catalog/keyed/uniqueness.py": {"KEYS"},
    # What Hive's kinds need besides: scans, staged plans, and a link whose state the commit moves on.
    "server/container.py": {"SYNC", "PUBLISH", "REMOVE_ORPHANS", "CONVERT", "PIPELINE"},
    "server/service/jobs/leased_files.py": {"CONVERT", "PIPELINE"},
    # The subject of a run is a table of a pipeline, and it reads other tables.
    "server/service/jobs/admission.py": {"PIPELINE"},
    "server/api/leases.py": {"PIPELINE"},
    "server/service/notifications/problem_ends.py": {"KEYS"},  # what its checks find is a problem
    "server/store/problem_facts.py": {"KEYS"},
    "server/service/pipelines/lineage_events.py": {"PIPELINE"},  # the runs that it tells about
    "server/service/pipelines/runs.py": {"PIPELINE"},
    "server/service/pipelines/stopped_backfills.py": {"PIPELINE"},
    "server/store/pipeline_facts.py": {"PIPELINE"},
    # The server commits a merge that the optimizer has built without Spark.
    "server/service/images/adoption.py": {"MERGE"},
    # A reader plans the build of an image that is too large for the server.
    "server/service/images/image_jobs.py": {"IMAGE"},
    # Such a build alone gets credentials for both stores and the directory of images.
    "server/service/access/credential_vending.py": {"IMAGE"},
    "server/service/hive/conversion.py": {"CONVERT"},
    "server/service/hive/downgrade.py": {"SYNC", "MERGE", "PUBLISH"},
    "server/service/hive/publish.py": {"MERGE", "PUBLISH", "KEYS"},
    "server/service/hive/publish_commit.py": {"PUBLISH"},
    "server/service/hive/publish_planner.py": {"PUBLISH"},
    "server/service/hive/sync.py": {"SYNC"},
    "server/service/hive/sync_planner.py": {"SYNC"},
    "server/service/hive/publish_requests.py": {"PUBLISH", "MERGE"},
}
"""Modules outside of catalog/maintenance that name kinds, because their own rules are about these. A new kind needs no
line here, unless such a rule is about it.
"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def apply_page(root: Path) -> set[str]:
    """The files that the page makes or changes."""
    touched: set[str] = set()
    for text in blocks("python"):
        name = text.splitlines()[0].removeprefix("# ")
        (root / name).write_text(text.partition("\n")[2], encoding="utf-8")
        touched.add(name)
    for text in blocks("diff"):
        for edit in text.split("--- ")[1:]:
            name, context, *added = edit.splitlines()
            path, line = root / name, context[1:] + "\n"
            before = path.read_text(encoding="utf-8")
            assert before.count(line) == 1, f"{name} has {before.count(line)} times: {line}"
            after = line + "".join(f"{added_line[1:]}\n" for added_line in added)
            path.write_text(before.replace(line, after), encoding="utf-8")
            touched.add(name)
    return touched


def test_a_new_kind_is_planned_dry_run_and_offered_once_its_name_and_two_modules_are_there(tmp_path: Path) -> None:
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "alembic.ini", tmp_path)
    assert apply_page(tmp_path) == {
        "catalog/maintenance/census.py",
        "optimizer/jobs/census.py",
        "firn/protocol/jobs.py",
    }
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "tests.contract.added_kind", str(tmp_path)]
    ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout.splitlines()[-1:]) == (0, ["planned, dry-run, offered, started, leased"]), (
        ended.stderr
    )


def test_no_other_module_names_a_kind_unless_its_own_rules_are_about_it() -> None:
    named: dict[str, set[str]] = defaultdict(set)
    for package in ("catalog", "server"):
        for path in (ROOT / package).rglob("*.py"):
            name = path.relative_to(ROOT).as_posix()
            if not name.startswith("catalog/maintenance/") and name != "catalog/jobs/job.py":
                kinds = re.findall(r"JobKind\.([A-Z_]+)\b", path.read_text(encoding="utf-8"))
                named[name] |= {kind for kind in kinds if kind in JobKind.__members__}
    assert {name: kinds for name, kinds in named.items() if kinds} == NAMED_ELSEWHERE
