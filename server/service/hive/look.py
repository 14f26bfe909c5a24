"""A linked table compared with what Hive has now: three-way, against the ground of the last sync."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from catalog.hive.drift import Additions, Drift, Dropped, New, Postponed, Rebuild, Unchanged, drift
from catalog.hive.ground import Ground, why_list
from catalog.ports.hive import TableFiles
from server.service.hive.state import HiveState, Unit, list_units

Changed = Additions | New | Rebuild | Dropped


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What one look at all partitions has found."""

    changed: dict[str, Changed] = field(default_factory=dict)
    refreshed: dict[str, Ground] = field(default_factory=dict)
    """Grounds to be renewed though nothing is to be taken over: their signals moved, or they have settled."""
    postponed: dict[str, str] = field(default_factory=dict)
    units: dict[str, Unit] = field(default_factory=dict)
    listed: int = 0

    @property
    def rebuilds(self) -> dict[str, Changed]:
        """Partitions that saw more than additions (rule 3.1): until they are built anew, base may lack files."""
        return {name: one for name, one in self.changed.items() if isinstance(one, Rebuild | Dropped)}

    @property
    def sentence(self) -> str | None:
        """The difference in words; None when there is none."""
        if not self.changed:
            return None
        words = {Additions: "new files", New: "new", Rebuild: "rewritten or moved", Dropped: "dropped"}
        counts = {word: sum(isinstance(one, kind) for one in self.changed.values()) for kind, word in words.items()}
        return "partitions " + ", ".join(f"{word}: {count}" for word, count in counts.items() if count)


def look(state: HiveState, grounds: Mapping[str, Ground], files: TableFiles, *, everything: bool) -> Looked:
    """Compare every partition, listing only those that some signal speaks for, or all if `everything`.

    Signals can lie still while files come (architecture section 6): a directory's own time is asked where it has one.
    """
    found = Looked(units={unit.name: unit for unit in state.units})
    to_list = [unit for unit in found.units.values() if everything or _speaks(unit, grounds.get(unit.name), files)]
    for unit, listing in list_units(files, to_list):
        _note(found, unit.name, drift(grounds.get(unit.name), unit.signals, listing), grounds)
    for name in grounds.keys() - found.units.keys():
        _note(found, name, drift(grounds[name], None, None), grounds)
    return Looked(
        changed=found.changed,
        refreshed=found.refreshed,
        postponed=found.postponed,
        units=found.units,
        listed=len(to_list),
    )


def _speaks(unit: Unit, ground: Ground | None, files: TableFiles) -> bool:
    modified_ns = None if ground is None else files.modified_ns(unit.location)
    return why_list(ground, unit.signals, modified_ns) is not None


def _note(found: Looked, name: str, result: Drift | None, grounds: Mapping[str, Ground]) -> None:
    match result:
        case Additions() | New() | Rebuild() | Dropped():
            found.changed[name] = result
        case Unchanged(ground=ground) if ground != grounds.get(name):
            found.refreshed[name] = ground
        case Postponed(reason=reason):
            found.postponed[name] = reason
        case _:
            pass
