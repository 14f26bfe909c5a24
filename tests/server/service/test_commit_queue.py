from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from server.service.commit.commit_queue import MOST_OVERTAKEN, CommitQueue
from tests.waiting import LONG, wait_for


def waiting(commit_queue: CommitQueue, name: str) -> int:
    return len(commit_queue._queues.get(name, ()))


def test_turns_come_in_the_order_of_arrival() -> None:
    commit_queue, order = CommitQueue(), []

    def take(number: int) -> None:
        with commit_queue.wait(["t"]):
            order.append(number)

    with ThreadPoolExecutor(5) as pool, commit_queue.wait(["t"]):
        for number in range(5):
            pool.submit(take, number)
            wait_for(lambda: waiting(commit_queue, "t") > number)  # noqa: B023 (asked before the loop goes on)
        assert order == []
    assert order == [0, 1, 2, 3, 4]


def in_order(commit_queue: CommitQueue, waiters: list[tuple[str, bool]]) -> list[str]:
    """The order in which these get their turn, who came in this one while somebody else had it."""
    order: list[str] = []

    def take(name: str, *, job: bool) -> None:
        with commit_queue.wait(["t"], job=job):
            order.append(name)

    with ThreadPoolExecutor(len(waiters)) as pool, commit_queue.wait(["t"]):
        for number, (name, job) in enumerate(waiters):
            pool.submit(take, name, job=job)
            wait_for(lambda: waiting(commit_queue, "t") > number)  # noqa: B023 (asked before the loop goes on)
    return order


def test_a_users_commit_goes_before_a_jobs_that_came_first() -> None:
    assert in_order(CommitQueue(), [("job", True), ("a", False), ("b", False)]) == ["a", "b", "job"]


def test_a_job_is_let_pass_before_it_starves() -> None:
    users = [(f"u{number}", False) for number in range(MOST_OVERTAKEN + 3)]
    order = in_order(CommitQueue(), [("first", True), ("second", True), *users])
    assert order.index("first") == MOST_OVERTAKEN
    assert order[-1] == "second"


def test_commits_of_different_tables_do_not_wait_for_each_other() -> None:
    commit_queue = CommitQueue()
    with commit_queue.wait(["a"]), ThreadPoolExecutor(1) as pool:

        def take() -> bool:
            with commit_queue.wait(["b"]):
                return True

        assert pool.submit(take).result(timeout=LONG)


def test_commits_of_the_same_tables_do_not_deadlock() -> None:
    commit_queue, done = CommitQueue(), []

    def take(names: list[str]) -> None:
        for _ in range(200):
            with commit_queue.wait(names):
                done.append(1)

    threads = [threading.Thread(target=take, args=(order,)) for order in (["a", "b"], ["b", "a"], ["a", "b", "c"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=LONG)
    assert len(done) == 600


def test_nothing_is_kept_when_nobody_waits_and_a_failure_ends_the_turn() -> None:
    commit_queue = CommitQueue()

    def fail() -> None:
        with commit_queue.wait(["a", "b", "a"]):
            raise KeyError

    with ThreadPoolExecutor(4) as pool:
        failures = [pool.submit(fail).exception() for _ in range(20)]
    assert all(isinstance(failure, KeyError) for failure in failures)
    assert commit_queue._queues == {}
