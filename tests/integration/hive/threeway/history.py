"""Random histories of one Hive table that both sides write to: Hive's users, Firn's writers and Firn's jobs.

After every step Firn's view is what the oracle says, Firn has touched no file that Hive's side has, and the metastore
points where the rules say. Hive's rows are what was published when everything has settled.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from uuid import UUID

from tests.hive_lake import NUMBERS
from tests.integration.hdfs.paths import AnyPath, path_at
from tests.integration.hive.threeway import hive_users
from tests.integration.hive.threeway.comparison import by_key, describe_changes, in_order, same
from tests.integration.hive.threeway.firn_side import FirnSide
from tests.integration.hive.threeway.hive_table import KEYS, PARTITIONS, removed
from tests.integration.hive.threeway.hive_users import HiveUsers
from tests.integration.hive.threeway.oracle import Oracle
from tests.integration.hive.threeway.oracle_values import Baseline, File, Part, Place
from tests.integration.hive.threeway.outages import Outages, deaths_in
from tests.integration.hive.threeway.weights import OF_ALL, OF_PARTITIONS, OPERATIONS_OF_FIRN
from tests.integration.hive.threeway.world import World
from tests.integration.keyed.model import Row

SPARK_EVERY = 12
"""Steps between two looks through Spark, which most readers use and which takes its time."""


class History:
    """One table, all who work on it, and what must come of it. The same seed takes the same steps."""

    def __init__(self, world: World, seed: int, *, partitioned: bool = True, managed: bool = False) -> None:
        self.deaths = deaths_in(world)
        self.random = random.Random(f"{seed} {partitioned} {managed}")
        self.world = world
        self.name = f"{world.database}.three{next(NUMBERS)}"
        self.hive = HiveUsers(
            *(world.engine, world.metastore.uri, world.tables, world.directory),
            *(self.name, self.random, partitioned, managed),
            security=world.security,
        )
        self.weights = {**OPERATIONS_OF_FIRN, **OF_ALL, **(OF_PARTITIONS if partitioned else {})}
        self.firn = FirnSide(world, self.name, partitioned)
        self.oracle = Oracle([*self.hive.columns], partitioned)
        self.done: list[str] = []
        self.log: list[str] = []
        self.number = 0
        self.kills = 0
        self.at_switch: dict[Part, Place] = {}
        """What Hive had when the metastore was last pointed at what was published."""
        self.roots: set[AnyPath] = set()
        """Where Hive's files are, or were before a publish."""
        self.excused: set[str] = set()
        """Files that Hive's side has changed while Firn was at work."""

    # -- the steps -------------------------------------------------------------------------------------------------

    def run(self, steps: int, kills: int) -> None:
        """Near the end what was not done yet is done, so that no history leaves an operation out."""
        self.hive.create()
        self.upgrade()
        deaths = self._shuffled([*self.deaths], kills)
        deadly = dict(zip(self.random.sample(range(5, steps), kills), deaths, strict=True))
        choices = [name for name, weight in self.weights.items() for _ in range(weight)]
        for step in range(steps):
            missing = [name for name in self.weights if name not in self.done]
            free = sum(at not in deadly for at in range(step, steps))
            name = self.random.choice(missing if missing and free <= len(missing) else choices)
            name = deadly.get(step, name)
            self.step(name)
            if step % SPARK_EVERY == SPARK_EVERY - 1:
                self.check_by_spark()
        self.step("settle")
        self.check_by_spark()

    def _shuffled(self, of: list[str], count: int) -> list[str]:
        """As many as that, each as often as any other."""
        kinds = [of[at % len(of)] for at in range(count)]
        self.random.shuffle(kinds)
        return kinds

    def step(self, name: str) -> None:
        self.done.append(name)
        self.log.append(f"{len(self.done)} {name}")
        began = time.monotonic()
        if name in self.deaths:
            self.kills += 1
            message = self.deaths[name](Outages(self))
        else:
            message = self.hive_does(name) if name in hive_users.OPERATIONS else OPERATIONS[name](self)
        self.log[-1] += f": {message} [{time.monotonic() - began:.1f} s]"
        self.check()

    def hive_does(self, name: str) -> str:
        return hive_users.OPERATIONS[name](self.hive)

    @property
    def columns(self) -> list[str]:
        """As Firn has them."""
        return [*self.oracle.columns, *(["p"] if self.oracle.partitioned else [])]

    # -- what holds after every step -------------------------------------------------------------------------------

    def check(self) -> None:
        if not self.is_broken():
            same(by_key(self.firn.rows()), self.oracle.view(), "the view")

    def check_by_spark(self) -> None:
        """The readers that people use say the same."""
        by_spark, by_files = in_order(self.hive.rows_by_spark()), in_order(self.hive.rows())
        assert by_spark == by_files, f"Spark reads {by_spark} of Hive, its files hold {by_files}"
        if not self.is_broken():
            same(by_key(self.firn.rows_by_spark(self.columns)), self.oracle.view(), "the view in Spark")

    def check_settled(self) -> None:
        """Both sides have all rows, and every file and directory that anything refers to is there."""
        expected = self.oracle.view()
        same(by_key(self.firn.rows()), expected, "the view")
        same(by_key(self.firn.rows(".base")), expected, "base")
        same(by_key(self.hive.rows()), expected, "Hive")
        baselines = {part: baseline for part, baseline in self.oracle.baselines.items() if not baseline.is_dropped}
        known = {part: Place(baseline.location, baseline.files) for part, baseline in baselines.items()}
        same(self.hive.places(), known, "what Hive lists")
        for part, place in self.hive.places().items():
            assert path_at(place.location).is_dir() or not [row for row in expected.values() if row.get("p") == part]
        assert self.firn.missing_files() == []
        assert self.firn.active_jobs() == []

    def is_broken(self) -> bool:
        """Whether Hive has removed or replaced files that base stands on: until the next sync readers meet that."""
        known = {f"{known_file.directory}/{known_file.name}": known_file for known_file in self._known_files()}
        return any(
            not path_at(path).is_file() or (path in known and known[path] not in self.hive.files(known[path].directory))
            for _, path, _ in self.firn.files()
        )

    def _known_files(self) -> Iterator[File]:
        for baseline in self.oracle.baselines.values():
            yield from baseline.files
            for left in baseline.watched:
                yield from left.files

    @contextmanager
    def untouched(self, *, moves: bool = False, clears: bool = False) -> Iterator[None]:
        """Firn changes no file that is there, and points the metastore nowhere else unless it `moves` partitions.

        If it `clears`, what lies where it has published and Hive has left may go (decision 51).
        """
        before, places = self.fingerprint(), self.hive.locations()
        yield
        after = self.fingerprint()
        lost = {path for path, looks in before.items() if after.get(path) != looks} - self.excused
        if clears:
            lefts = [
                place for baseline in self.oracle.baselines.values() for place in (baseline.left, *baseline.watched)
            ]
            used = {*places.values(), *(place.location for place in lefts)}
            lost = {path for path in lost if "published-to-hive" not in path or str(path_at(path).parent) in used}
        assert not lost, f"Firn has changed or removed {sorted(lost)}"
        if not moves:
            same(self.hive.locations(), places, "the metastore")

    def fingerprint(self) -> dict[str, tuple[int, int, str]]:
        """Every file of Hive's side, where it was published too."""
        own = self.world.supervisor.data_dir
        self.roots |= {self.hive.root(), self.world.tables, self.world.warehouse / "published-to-hive"}
        paths = {path for root in self.roots for path in root.rglob("*") if path.is_file()}
        return {
            str(path): (path.stat().st_size, path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
            for path in paths
            if path.suffix == ".parquet" or path.name.startswith(("part-", "0000"))
            if not path.is_relative_to(own) or "published-to-hive" in path.parts
        }

    def standing(self) -> set[Part]:
        """Partitions whose rows base has in exactly the files that Firn knows Hive to list."""
        files: dict[Part, set[str]] = {}
        for part, path, deletes in self.firn.files():
            files.setdefault(part, set()).add("deletes" if deletes else path)
        baselines = {part: baseline for part, baseline in self.oracle.baselines.items() if not baseline.is_dropped}
        known = {
            part: {f"{file.directory}/{file.name}" for file in baseline.files} for part, baseline in baselines.items()
        }
        return {part for part, listed in known.items() if files.get(part, set()) == listed}

    # -- Firn's side -----------------------------------------------------------------------------------------------

    def upgrade(self) -> None:
        self.hive.wait_until_settled()
        with self.untouched():
            self.firn.upgrade()
        self.oracle.upgrade(self.hive.places())
        self.check()

    def change_by_rest(self) -> str:
        """Upserts and deletes of one commit."""
        changes = [(key, self._change(key)) for key in self.some_keys()]
        rows = [{**(row or {"id": key}), "_op": "U" if row else "D", "_source": None} for key, row in changes]
        answer = self.firn.change.append(rows, {"firn.writer-id": "rest", "firn.batch-id": self.uuid()})
        assert answer.is_success, answer.text
        self.oracle.write(changes)
        return describe_changes(changes)

    def upsert_by_client(self) -> str:
        changes: list[tuple[int, Row | None]] = [(key, self.row(key)) for key in self.some_keys()]
        assert not self.write("upsert", changes, self.uuid())
        self.oracle.write(changes)
        return describe_changes(changes)

    def delete_by_client(self) -> str:
        changes: list[tuple[int, Row | None]] = [(key, None) for key in self.some_keys()]
        assert not self.write("delete", changes, self.uuid())
        self.oracle.write(changes)
        return describe_changes(changes)

    def write(self, op: str, changes: Sequence[tuple[int, Row | None]], batch: str) -> bool:
        """By Firn's client; whether the batch had been there."""
        names = self.columns if op == "upsert" else ["id"]
        return self.firn.write(op, names, [row or {"id": key} for key, row in changes], batch)

    def some_keys(self) -> list[int]:
        return self.random.sample(KEYS, self.random.randint(1, 3))

    def _change(self, key: int) -> Row | None:
        return None if self.random.random() < 0.3 else self.row(key)

    def row(self, key: int) -> Row:
        self.number += 1
        row: Row = {name: key if name == "id" else f"f{self.number}" for name in self.oracle.columns}
        return {**row, "p": self.random.choice(PARTITIONS)} if self.oracle.partitioned else row

    def uuid(self) -> str:
        return str(UUID(int=self.random.getrandbits(128), version=4))

    # -- jobs ------------------------------------------------------------------------------------------------------

    def merge(self) -> str:
        self._synced_if_broken()
        mode = self.random.choice(["rewrite", "vectors", "adopt"])
        with self.untouched():
            self.firn.job("merge", mode=mode)
        self.oracle.merge()
        same(by_key(self.firn.rows(".base")), self.oracle.view(), "base")
        return mode

    def upkeep(self) -> str:
        """Everything else that changes no row."""
        self._synced_if_broken()
        kind = self.random.choice(
            ["rewrite", "compact", "rewrite-deletes", "rewrite-manifests", "clean", "expire", "remove-orphans"]
        )
        with self.untouched(clears=kind == "remove-orphans"):
            self.firn.job(kind)
        return kind

    def sync(self) -> str:
        return self.take_over(everything=False)

    def sync_everything(self) -> str:
        return self.take_over(everything=True)

    def take_over(self, *, everything: bool, ask: Callable[[], None] | None = None) -> str:
        """`ask` begins it in another way; what it leaves is finished."""
        self._settled()
        self._note_columns()
        hive, standing = self.hive.places(), self.standing()
        listings = {
            name: self.hive.files(name) for baseline in self.oracle.baselines.values() for name in self._left(baseline)
        }
        with self.untouched(moves=True):
            if ask is not None:
                ask()
            message = self.firn.sync(everything=everything)
        expected = self.oracle.sync(hive, lambda location: listings.get(location, frozenset()), standing)
        same(self.hive.locations(), {part: place.location for part, place in expected.items()}, "the metastore")
        return message

    @staticmethod
    def _left(baseline: Baseline) -> list[str]:
        return [place.location for place in baseline.watched] + [baseline.location]

    def _settled(self) -> None:
        left = {location for baseline in self.oracle.baselines.values() for location in self._left(baseline)}
        self.hive.wait_until_settled(left)

    def _note_columns(self) -> None:
        for name in self.hive.columns:
            if name not in self.oracle.columns:
                self.oracle.add_column(name)

    def _synced_if_broken(self) -> None:
        """Merges and publishes read base, and Hive's readers may not lose a column that Firn has not heard of."""
        if self.is_broken() or self.oracle.columns != [*self.hive.columns]:
            self.take_over(everything=True)

    def publish(self) -> str:
        self._synced_if_broken()
        with self.untouched():
            if self.firn.has_pending():
                self.firn.job("merge")
        self.oracle.merge()
        return self.give()

    def publish_what_was_merged(self) -> str:
        """Changes that are pending wait."""
        self._synced_if_broken()
        return self.give()

    def give(self, ask: Callable[[], None] | None = None) -> str:
        standing, self.at_switch = self.standing(), self.hive.places()
        with self.untouched(moves=True):
            if ask is not None:
                ask()
            message = self.firn.publish()
        self._published(standing, self.at_switch)
        return message

    def _published(self, standing: set[Part], before: Mapping[Part, Place]) -> None:
        """What Hive has now is base's, where it was given it; what it was not given is where it was."""
        after, baselines = self.hive.places(), dict(self.oracle.baselines)
        self.oracle.publish(standing, before, after)
        for part, written in self._written().items():
            if part not in after or after[part].location != written.location:
                baseline = baselines.get(part)
                if baseline is None or written.location != baseline.location:
                    self.oracle.gave_up(part, written)
        for part, place in after.items():
            was = before.get(part)
            if was is None or was.location != place.location:
                rows = [self.hive.shown(row, part) for file in place.files for row in file.rows]
                own = {key: row for key, row in self.oracle.base.items() if self.oracle.part_of(row) == part}
                same(by_key(rows), own, f"published partition {part}")

    def _written(self) -> dict[Part, Place]:
        """Partitions whose rows base has in published files, and where these lie."""
        directories = {
            part: str(path_at(path).parent) for part, path, _ in self.firn.files() if "/published-to-hive/" in path
        }
        return {part: Place(location, self.hive.files(location)) for part, location in directories.items()}

    # -- time, and writers that are late ---------------------------------------------------------------------------

    def time_passes(self) -> str:
        """No overwrite lasts longer: all that Hive's side has done is whole, and what it dropped stays away."""
        message = self.take_over(everything=True)
        self.firn.set_property("firn.hive.overwrite-window", "1 s")
        time.sleep(1.1)
        self.firn.sync(everything=True)
        self.firn.set_property("firn.hive.overwrite-window", None)
        self.oracle.time_passes()
        return message

    def late_file(self) -> str:
        """A writer that began before a publish still writes where the partition was."""
        left = self._places_left()
        if not left:
            return "nothing was left"
        location, rows = self.random.choice(left), self.hive.new_rows()
        self.hive.write_file(location, rows)
        return f"{location}: {hive_users.describe_rows([(row, None) for row in rows])}"

    def late_overwrite(self) -> str:
        left = self._places_left()
        if not left:
            return "nothing was left"
        location, rows = self.random.choice(left), self.hive.new_rows()
        for file in self.hive.files(location):
            removed(path_at(file.directory) / file.name)
        self.hive.write_file(location, rows)
        return f"{location}: {hive_users.describe_rows([(row, None) for row in rows])}"

    def _places_left(self) -> list[str]:
        """In the order in which they were left: their names are none that a seed repeats."""
        there = {place.location for place in self.hive.places().values()}
        baselines = [self.oracle.baselines[part] for part in sorted(self.oracle.baselines, key=str)]
        return [place.location for baseline in baselines for place in baseline.watched if place.location not in there]

    # -- the end ---------------------------------------------------------------------------------------------------

    def settle(self) -> str:
        """Nobody writes; what was merged is published."""
        message = [self.time_passes(), self.publish()]
        self.check_settled()
        assert self.firn.sync(everything=True) == "nothing changed"
        return "; ".join(message)

    def downgrade_and_upgrade_again(self) -> str:
        """Hive has everything when the table is given back, and none of it is lost when it is taken over again."""
        message = self.time_passes()
        with self.untouched(moves=True):
            self.firn.downgrade()
        same(by_key(self.hive.rows()), self.oracle.view(), "Hive")
        assert not self.firn.is_there()
        self.oracle = Oracle([*self.hive.columns], self.oracle.partitioned)
        self.upgrade()
        return message


OPERATIONS: Mapping[str, Callable[[History], str]] = {name: getattr(History, name) for name in OPERATIONS_OF_FIRN}
