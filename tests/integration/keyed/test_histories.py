"""At least 128 random steps on tables of four shapes, compared with a plain dict after each (invariants 1 to 6, 10).

A red run prints its seed and its steps; HISTORY_SEED repeats it. CI takes the same steps each time, `make soak` goes on
for SOAK_SECONDS with new ones.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Iterator

import pytest

from optimizer.worker import Worker
from tests.integration.keyed.history import OPERATIONS, History
from tests.integration.keyed.model import INT, LONG, TEXT, Shape
from tests.integration.keyed.supervisor import QUICK
from tests.spark_fixtures import RunningServer, running_server

SOAK_SECONDS = float(os.environ.get("SOAK_SECONDS", "0"))
SEED = int(os.environ.get("HISTORY_SEED", "0")) or (random.SystemRandom().getrandbits(32) if SOAK_SECONDS else 1)
pytestmark = [pytest.mark.spark, pytest.mark.model, pytest.mark.timeout(900 + SOAK_SECONDS)]

STEPS = 40 if SOAK_SECONDS else 32
"""At least as many as there are operations, each of which a history takes."""
COLUMNS = {"id": LONG, "part": TEXT, "n": INT, "v": TEXT}
SHAPES = {
    "one key": Shape(columns=COLUMNS, key=("id",), partition="part"),
    "late changes": Shape(columns={**COLUMNS, "at": INT}, key=("id",), partition="part", sequence="at"),
    "composite key in v2": Shape(columns={"kind": TEXT, **COLUMNS}, key=("id", "kind"), base_version=2),
    "keys of partitions": Shape(
        columns={**COLUMNS, "at": INT}, key=("id",), partition="part", sequence="at", scope="partition", base_version=2
    ),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server whose leases end soon."""
    with running_server(tmp_path_factory.mktemp("firn") / "data", **QUICK) as running:
        yield running


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_view_is_the_model_after_every_step(
    server: RunningServer, worker: Worker, shape: Shape, capsys: pytest.CaptureFixture[str]
) -> None:
    met, seed, deadline = Counter[str](), SEED, time.monotonic() + SOAK_SECONDS / len(SHAPES)
    while not met or time.monotonic() < deadline:
        met += run(History(server, worker, shape, seed), seed)
        seed += 1
    if SOAK_SECONDS:
        with capsys.disabled():
            print(f"\n{met.total()} steps: {dict(met.most_common())}")  # noqa: T201 -- whoever soaks wants to know
    assert met.total() >= STEPS
    assert met.keys() == OPERATIONS.keys()


def run(history: History, seed: int) -> Counter[str]:
    """All steps of one history; how often it did what."""
    try:
        history.run(STEPS)
    except Exception as error:
        error.add_note(f"HISTORY_SEED={seed}: {', '.join(history.done)}")
        raise
    return Counter(history.done)
