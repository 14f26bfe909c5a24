"""Which engine drains which batch of a stream, without Spark and without a broker."""

from __future__ import annotations

from typing import Any, cast

import pytest

from firn.drains.engine import Engine
from firn.drains.errors import NeedsSpark
from firn.errors import FirnError
from firn.logs import LogBatch
from firn.spark.log_drain import LogDrain
from optimizer import drain_engines
from optimizer.drain_engines import DrainEngines

BATCH = LogBatch(topic="t", start={0: 0}, end={0: 1})


class Light:
    """See firn.drains.light.LightDrain: commits, or raises what it is told to."""

    def __init__(self, engines: Engines) -> None:
        self.engines = engines

    def commit(self, _log: Any, batch: LogBatch) -> LogBatch:
        error = self.engines.errors.pop(0) if self.engines.errors else None
        self.engines.done.append("light" if error is None else "tried")
        if error is not None:
            raise error
        return batch


class InSpark(LogDrain):
    """A drain in Spark, without one."""

    def __init__(self, engines: Engines) -> None:
        self.engines, self.spark, self.target = engines, cast("Any", None), cast("Any", type("T", (), {"name": "t"}))

    def plan(self, log: Any) -> LogBatch | None:
        return BATCH

    def commit(self, log: Any, batch: LogBatch) -> LogBatch:
        self.engines.done.append("spark")
        return batch


class Engines(DrainEngines):
    """It opens nothing."""

    def __init__(self, engine: Engine, *errors: Exception | None) -> None:
        super().__init__(cast("Any", None), cast("Any", None), cast("Any", None), cast("Any", None), engine)
        self.errors, self.done, self.reasons = [*errors], list[str](), list[str | None]()

    def _enter_light(self) -> None:
        self.reasons.append(None)
        self._drain = cast("Any", Light(self))

    def _enter_spark(self, why: str, *, is_for_good: bool) -> LogDrain:
        self.reasons.append(why)
        self._is_for_good = is_for_good
        self._drain = drain = InSpark(self)
        return drain


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drain_engines, "load_target", lambda _spark, _name: None)
    monkeypatch.setattr(InSpark, "target", type("T", (), {"name": "t"}), raising=False)


def commit(engines: Engines, times: int) -> list[str]:
    """Commit so many batches; what was done for each."""
    with engines:
        for _ in range(times):
            assert engines.commit(cast("Any", None), BATCH) == BATCH
            if isinstance(engines.current, InSpark):
                engines.current.target = cast("Any", type("T", (), {"name": "t"}))
    return engines.done


def test_a_batch_that_needs_spark_goes_there_and_the_next_one_does_not() -> None:
    engines = Engines(Engine.AUTO, None, NeedsSpark("a record"))
    assert commit(engines, 3) == ["light", "tried", "spark", "light"]
    assert engines.reasons == [None, "a record", None]


def test_the_light_engine_tries_more_and_more_rarely_while_each_batch_needs_spark() -> None:
    engines = Engines(Engine.AUTO, *[NeedsSpark("a record")] * 200)
    done = commit(engines, 200)
    gaps = [len(part.split()) for part in " ".join(done).split("tried")[1:]]
    assert gaps[:7] == [1, 2, 4, 8, 16, 32, 64]
    assert max(gaps) == 64


def test_a_table_that_needs_spark_stays_there() -> None:
    engines = Engines(Engine.AUTO, NeedsSpark("column n has the type uuid", is_of_table=True))
    assert commit(engines, 3) == ["tried", "spark", "spark", "spark"]
    assert engines.reasons == [None, "column n has the type uuid"]


def test_each_engine_can_be_forced() -> None:
    assert commit(Engines(Engine.SPARK), 2) == ["spark", "spark"]
    with pytest.raises(FirnError, match="this optimizer drains without Spark only: a record") as refused:
        commit(Engines(Engine.LIGHT, NeedsSpark("a record")), 1)
    assert "--drain-engine auto" in (refused.value.hint or "")


def test_a_program_without_the_packages_drains_in_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise NeedsSpark("confluent-kafka is not installed", is_of_table=True)

    monkeypatch.setattr(drain_engines, "require_packages", refuse)
    engines = Engines(Engine.AUTO)
    assert commit(engines, 2) == ["spark", "spark"]
    assert engines.reasons == ["confluent-kafka is not installed"]
