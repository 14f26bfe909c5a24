"""The process of queries as the server sees it: its ends, its time limit, and what it may open."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence

import pytest

from catalog.errors import Invalid, NotFound, Unavailable
from catalog.ports.queries import QueryCanceled
from firn.protocol.tasks.query import QueryLimits, QueryMessage, QueryTask
from server.launch.query_engine import QueryProcess

LIMITS = QueryLimits(rows=1, result_bytes=1, memory_bytes=1, threads=1, files=1)
TASK = QueryTask(statement="SELECT 1", tables=[], limits=LIMITS)
DONE = '{"done":{"rows":0,"truncated":false}}'
Run = list[QueryProcess]


@pytest.fixture
def engines() -> Iterator[Run]:
    started: Run = []
    yield started
    for engine in started:
        engine.stop()


def an_engine(engines: Run, program: str, seconds: float = 20.0) -> QueryProcess:
    code = f"import sys, time\nfor line in sys.stdin:\n    {program}\n    sys.stdout.flush()"
    engine = QueryProcess(seconds, (sys.executable, "-c", code), idle_seconds=0)
    engines.append(engine)
    return engine


def run(engine: QueryProcess, *, canceled: threading.Event | None = None) -> list[QueryMessage]:
    messages: list[QueryMessage] = []
    engine.run(TASK, lambda _view, _files: None, messages.append, (canceled or threading.Event()).is_set)
    return messages


@pytest.mark.parametrize("line", ["nonsense", '{"open": 1}', ""])
def test_a_process_that_talks_nonsense_or_ends_fails_the_query_alone(engines: Run, line: str) -> None:
    engine = an_engine(engines, f"print({line!r}); sys.exit(0)" if line else "sys.exit(1)")
    for _ in range(2):
        with pytest.raises(Invalid, match="stopped the engine"):
            run(engine)


def test_what_the_process_says_of_failures_becomes_an_error(engines: Run) -> None:
    error_by_line = {'{"refused":{"message":"no"}}': Invalid, '{"gone":"f"}': NotFound, '{"error":"x"}': Unavailable}
    for line, kind in error_by_line.items():
        with pytest.raises(kind):
            run(an_engine(engines, f"print({line!r})"))


def test_a_silent_process_ends_with_its_time_and_with_a_cancel(engines: Run) -> None:
    with pytest.raises(Invalid, match=r"longer than 0\.3 s"):
        run(an_engine(engines, "time.sleep(60)", seconds=0.3))
    engine, canceled = an_engine(engines, "time.sleep(3600)", seconds=3600), threading.Event()
    threading.Timer(0.3, canceled.set).start()
    with pytest.raises(QueryCanceled):
        run(engine, canceled=canceled)


def test_a_refused_file_ends_the_process_so_that_it_answers_no_other_query(engines: Run) -> None:
    engine = an_engine(
        engines, f'print(\'{{"open":["f"],"view":"v"}}\'); sys.stdout.flush(); sys.stdin.readline(); print(\'{DONE}\')'
    )

    def refuse(view: str, files: Sequence[str]) -> None:
        assert (view, list(files)) == ("v", ["f"])
        raise Invalid("not this file")

    with pytest.raises(Invalid, match="not this file"):
        engine.run(TASK, refuse, lambda _message: None, lambda: False)
    assert [message.done is not None for message in run(engine)] == [True]


def test_many_messages_in_one_write_are_all_taken(engines: Run) -> None:
    lines = '{"progress":0.5}\\n' * 2_000
    engine = an_engine(engines, f"print('{lines}{DONE}')")
    assert len(run(engine)) == 2_001
    assert engine.end_if_idle()
    assert not engine.end_if_idle()
    assert len(run(engine)) == 2_001


def test_a_stopped_engine_stays_stopped(engines: Run) -> None:
    engine = an_engine(engines, "time.sleep(60)")
    threading.Timer(0.3, engine.stop).start()
    for _ in range(2):
        with pytest.raises(Unavailable, match="stopping"):
            run(engine)
