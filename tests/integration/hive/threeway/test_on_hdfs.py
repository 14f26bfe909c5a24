"""The history of three ways with all files on an HDFS whose nodes end, stand still and come back; `make soak` alone.

HISTORY_SEED repeats a history, HISTORY_STEPS shortens it: then it takes the operations that come, and not each of them.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from firn.embedded.metastore import EmbeddedMetastore
from tests.hive_engine import HiveEngine
from tests.integration.hdfs.daemons import daemons
from tests.integration.hive.threeway.history import History
from tests.integration.hive.threeway.test_three_ways import KILLS, SEED, SOAK_SECONDS, STEPS, shapes
from tests.integration.hive.threeway.world import World, a_world

HISTORY_STEPS = int(os.environ.get("HISTORY_STEPS", "0")) or STEPS
pytestmark = [
    *(pytest.mark.spark, pytest.mark.hive, pytest.mark.model, pytest.mark.timeout(3600 + SOAK_SECONDS)),
    pytest.mark.skipif("SOAK_SECONDS" not in os.environ, reason="the HDFS of four processes is for `make soak`"),
]


@pytest.fixture(scope="module")
def world(metastore: EmbeddedMetastore, hive: HiveEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("onhdfs")
    with daemons(directory / "hdfs") as hdfs, a_world(metastore, hive, directory, hdfs) as running:
        yield running


def test_hive_firn_and_the_oracle_agree_whatever_hdfs_does(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    take_histories(world, KILLS, capsys)


def take_histories(world: World, kills: int, capsys: pytest.CaptureFixture[str]) -> None:
    """One history after another for SOAK_SECONDS, at least one; each meets that many outages."""
    met, outages, seed, deadline = Counter[str](), list[str](), SEED, time.monotonic() + SOAK_SECONDS
    while not met or time.monotonic() < deadline:
        history = History(world, seed, **shapes(seed))
        try:
            history.run(HISTORY_STEPS, kills)
        except Exception as error:
            error.add_note("\n".join((f"HISTORY_SEED={seed} on {history.name}:", *history.log)))
            raise
        met += Counter(history.done)
        outages += [step for step, name in zip(history.log, history.done, strict=True) if name in history.deaths]
        seed += 1
    with capsys.disabled():
        steps = f"{met.total()} steps on HDFS: {dict(met.most_common())}"
        print("", steps, *outages, sep="\n")  # noqa: T201 -- whoever soaks wants to know
