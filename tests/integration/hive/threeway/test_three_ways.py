"""Hive's users, Firn's writers and Firn's jobs on one table, in random order, with processes that die at any moment.

After every step the view is what an oracle of plain dicts says (docs/hive/index.md), Firn has touched no file of
Hive's side, and once all has settled Hive's rows are the published ones and nothing that is referred to is missing. A
red run prints its seed and its steps; HISTORY_SEED repeats it. CI takes the same steps each time, `make soak` goes on
for SOAK_SECONDS with new ones.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from firn.embedded.metastore import EmbeddedMetastore
from tests.hive_engine import HiveEngine
from tests.integration.hive.threeway.history import History
from tests.integration.hive.threeway.world import World, a_world

SOAK_SECONDS = float(os.environ.get("SOAK_SECONDS", "0"))
SEED = int(os.environ.get("HISTORY_SEED", "0")) or (random.SystemRandom().getrandbits(32) if SOAK_SECONDS else 1)
STEPS = 100 if SOAK_SECONDS else 42
"""At least as many as there are operations and deaths, each of which a history takes."""
pytestmark = [pytest.mark.spark, pytest.mark.hive, pytest.mark.model, pytest.mark.timeout(1800 + SOAK_SECONDS)]
KILLS = 5


@pytest.fixture(scope="module")
def world(metastore: EmbeddedMetastore, hive: HiveEngine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with a_world(metastore, hive, tmp_path_factory.mktemp("threeway")) as running:
        yield running


def test_hive_firn_and_the_oracle_agree_whoever_dies(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    met, seed, deadline = Counter[str](), SEED, time.monotonic() + SOAK_SECONDS
    while not met or time.monotonic() < deadline:
        met += run(History(world, seed, **shapes(seed)), seed)
        seed += 1
    if SOAK_SECONDS:
        with capsys.disabled():
            print(f"\n{met.total()} steps: {dict(met.most_common())}")  # noqa: T201 -- whoever soaks wants to know
    assert met.total() > STEPS


def shapes(seed: int) -> dict[str, bool]:
    """What kind of table a seed makes."""
    return {"partitioned": seed % 4 != 0, "managed": seed % 3 == 0}


def run(history: History, seed: int) -> Counter[str]:
    """All steps of one history; how often it did what."""
    try:
        history.run(STEPS, KILLS)
    except Exception as error:
        story = "\n".join(history.log)
        error.add_note(f"HISTORY_SEED={seed} on {history.name}:\n{story}")
        raise
    assert history.kills == KILLS
    assert history.weights.keys() <= {*history.done}
    return Counter(history.done)
