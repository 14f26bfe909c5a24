"""Which privilege a setting takes: every setting is classified, and those that let rows go are for writers."""

from __future__ import annotations

from catalog.policy.authority import FOR_MAINTAINERS, FOR_WRITERS, need_write_privilege
from catalog.policy.policy import RETENTION
from catalog.policy.settings import SETTINGS


def test_every_setting_is_for_maintainers_or_for_writers() -> None:
    """A new one cannot be forgotten, and none is in both lists or of neither kind any more."""
    assert SETTINGS.keys() | {RETENTION} == FOR_MAINTAINERS | FOR_WRITERS
    assert not FOR_MAINTAINERS & FOR_WRITERS


def test_whatever_is_said_of_rows_by_age_snapshots_and_orphans_is_for_writers() -> None:
    for key in SETTINGS:
        if key.startswith(("firn.ttl.", "firn.expire.", "firn.orphans.", "firn.tags.", "firn.tombstone.")):
            assert need_write_privilege([key]), key
    assert not need_write_privilege(["firn.merge.mode", "firn.rewrite.strategy"])
