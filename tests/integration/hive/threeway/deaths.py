"""Whose death a history meets, at what moment, and what is being done then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.integration.hive.threeway.comparison import describe_changes
from tests.integration.hive.threeway.hive_table import KEYS

if TYPE_CHECKING:
    from tests.integration.hive.threeway.history import History

Death = Callable[[Callable[[], object], Callable[[], object]], None]
"""Has somebody die while the first is done; the second only asks for it."""
SERVER_DIES: Mapping[str, tuple[str, ...]] = {
    "sync": (
        "after SyncPlanner._queue 1",
        "after Jobs.take 1",
        "after Jobs.begin_commit 1",
        "before Committer._move 1",
        "after Committer._move 1",
        "before Jobs.report 1",
    ),
    "publish": (
        "before PublishedFiles.accept 1",
        "after TableFiles.write_snapshot 1",
        "before Committer._move 1",
        "after Committer._move 1",
        "before Repointer._moved 1",
        "after Repointer._moved 1",
        "after Repointer._note 1",
        "before Jobs.report 1",
    ),
    "write": ("after MetadataFiles.write 1", "before Committer._move 1", "after Committer._move 1"),
}
OPTIMIZER_DIES = (
    "after ServerApi.take_lease 1",
    "before ServerApi.committing 1",
    "before JobRun.commit 1",
    "after JobRun.commit 1",
    "before ServerApi.report 1",
)
METASTORE_DIES: Mapping[str, tuple[str, ...]] = {
    "sync": ("get_table", "get_partition_names", "get_partitions_by_names"),
    "publish": ("alter_partition", "get_table"),
}


@dataclass(frozen=True)
class Deaths:
    """Something is done, somebody dies meanwhile, and it is asked for again until it is done."""

    history: History

    def server(self) -> str:
        action = self.history.random.choice(sorted(SERVER_DIES))
        moment = self.history.random.choice(SERVER_DIES[action])
        return self._while_dying(action, lambda act, _: self.history.world.kill_the_server(moment, act), moment)

    def server_while_hive_writes(self) -> str:
        """A publish is held up: before its server lives again, Hive's side has gone on."""
        moment = self.history.random.choice(["before Committer._move 1", "before Repointer._moved 1"])
        names = ["copy_a_file", "write_twice_in_a_second"]  # done without the optimizer's process
        name = self.history.random.choice(names + (["remove_a_file", "replace_a_file"] if "_moved" in moment else []))

        def meanwhile() -> None:
            before = self.history.fingerprint()
            self.history.log[-1] += f" {name}: {self.history.hive_does(name)};"
            self.history.at_switch = self.history.hive.places()
            after = self.history.fingerprint()
            self.history.excused |= {path for path, looks in before.items() if after.get(path) != looks}

        return self._while_dying(
            "publish", lambda act, _: self.history.world.kill_the_server(moment, act, meanwhile), moment
        )

    def optimizer(self) -> str:
        action = self.history.random.choice(["publish", "sync"])
        moment = self.history.random.choice(OPTIMIZER_DIES)

        def kill(_: object, ask: Callable[[], object]) -> None:
            ask()
            self.history.world.kill_an_optimizer(moment, lambda: bool(self.history.firn.active_jobs()))

        return self._while_dying(action, kill, moment)

    def metastore(self) -> str:
        action = self.history.random.choice(["publish", "sync"])
        call = self.history.random.choice(METASTORE_DIES[action])
        if not self.history.oracle.partitioned:
            call = {"publish": "alter_table", "sync": "get_table"}[action]
        done = self.history.random.random() < 0.5
        kill: Death = lambda act, _: self.history.world.kill_the_metastore(call, act, done=done)  # noqa: E731
        return self._while_dying(action, kill, f"{call}, {'done' if done else 'unheard'}")

    def _while_dying(self, action: str, kill: Death, moment: str) -> str:
        self.history.log[-1] += f" ({action}, {moment})"
        return {"publish": self._publish_dying, "sync": self._sync_dying, "write": self._write_dying}[action](kill)

    def _sync_dying(self, kill: Death) -> str:
        name = self.history.random.choice(["copy_a_file", "overwrite_by_values"])
        message = self.history.hive_does(name)
        firn = self.history.firn
        synced = self.history.take_over(
            everything=True,
            ask=lambda: kill(lambda: firn.sync(everything=True), lambda: firn.ask_sync(everything=True)),
        )
        return f"{name}: {message}; {synced}"

    def _publish_dying(self, kill: Death) -> str:
        """Of a partition that Hive has, so that it is pointed elsewhere."""
        self.history.time_passes()
        key, part = self.history.random.choice(KEYS), self.history.hive.listed_part()
        if part not in self.history.oracle.baselines:  # it was just made, because there was none
            self.history.take_over(everything=True)
            self.history.time_passes()
        row = {**self.history.row(key), "p": part} if self.history.oracle.partitioned else self.history.row(key)
        assert self.history.firn.change.append([{**row, "_op": "U", "_source": None}]).is_success
        self.history.oracle.write([(key, row)])
        self.history.firn.job("merge")
        self.history.oracle.merge()
        firn = self.history.firn
        return self.history.give(lambda: kill(firn.publish, firn.ask_publish))

    def _write_dying(self, kill: Death) -> str:
        """Nobody knows whether the batch has arrived; sent again under its name it is there once."""
        op = self.history.random.choice(["upsert", "delete"])
        changes = [(key, self.history.row(key) if op == "upsert" else None) for key in self.history.some_keys()]
        batch = self.history.uuid()
        kill(lambda: self.history.write(op, changes, batch), lambda: None)
        was_there = self.history.write(op, changes, batch)
        self.history.oracle.write(changes)
        return f"{op} {describe_changes(changes)}, {'arrived' if was_there else 'sent again'}"


DEATHS: Mapping[str, Callable[[Deaths], str]] = {
    "kill the server": Deaths.server,
    "kill the server while Hive writes": Deaths.server_while_hive_writes,
    "kill an optimizer": Deaths.optimizer,
    "kill the metastore": Deaths.metastore,
    "kill the server again": Deaths.server,
}
