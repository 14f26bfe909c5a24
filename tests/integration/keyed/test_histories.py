"""At least 80 random steps on tables of four shapes, compared with a plain dict after each (invariants 1 to 6, 10).

A red run prints its seed and its steps; HISTORY_SEED repeats it. CI takes the same steps each time, `make soak` goes on
for SOAK_SECONDS with new ones.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Collection, Iterator

import pytest

from optimizer.worker import Worker
from tests.integration.keyed.history import OPERATIONS, History
from tests.integration.keyed.model import INT, LONG, TEXT, Shape
from tests.integration.keyed.supervisor import QUICK
from tests.spark_fixtures import RunningServer, running_server

SOAK_SECONDS = float(os.environ.get("SOAK_SECONDS", "0"))
SEED = int(os.environ.get("HISTORY_SEED", "0")) or (random.SystemRandom().getrandbits(32) if SOAK_SECONDS else 1)
pytestmark = [pytest.mark.spark, pytest.mark.model, pytest.mark.timeout(900 + SOAK_SECONDS)]

STEPS = 40 if SOAK_SECONDS else 20
MERGES = {"append_changes", "merge_by_rewriting", "merge_by_vectors", "merge_by_adoption", "merge_a_part"}
"""Operations that every history takes."""
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
    required = choose_operations([*SHAPES.values()].index(shape))
    while not met or time.monotonic() < deadline:
        met += run(History(server, worker, shape, seed), seed, required)
        seed += 1
    if SOAK_SECONDS:
        with capsys.disabled():
            print(f"\n{met.total()} steps: {dict(met.most_common())}")  # noqa: T201 -- whoever soaks wants to know
    assert met.total() >= STEPS
    assert met.keys() >= required


def choose_operations(number: int) -> set[str]:
    """What the history of the shape with this number takes: the merges, and every second one of the others.

    Each operation is taken by one shape with a sequence field and by one without. A soak takes all on each shape.
    """
    others = [name for name in OPERATIONS if name not in MERGES]
    half = 0 if number in {0, 3} else 1
    return {*OPERATIONS} if SOAK_SECONDS else MERGES | {*others[half::2]}


def run(history: History, seed: int, required: Collection[str]) -> Counter[str]:
    """All steps of one history; how often it did what."""
    try:
        history.run(STEPS, required)
    except Exception as error:
        error.add_note(f"HISTORY_SEED={seed}: {', '.join(history.done)}")
        raise
    return Counter(history.done)
