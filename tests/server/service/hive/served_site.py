"""A server over a metastore with many tables."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from server.app import create_app
from server.background.registry import build_background
from tests.command_line import Command
from tests.factories import LAKE
from tests.server.default_settings import settings_in
from tests.server.listening import listening
from tests.server.service.hive.beside_hive import BesideHive, HiveFiles
from tests.server.service.hive.text_tables import a_text_table


@dataclass
class Site:
    """A server with two tables that can be upgraded, `db.raw` that cannot, and the command line."""

    beside: BesideHive
    run: Command
    orders: HiveFiles
    events: HiveFiles

    def works(self) -> None:
        """Carry out in the background what is asked for, as a server does."""
        self.beside.services.hive.poke = lambda: threading.Thread(target=self.beside.upgrades.activate).start()


@pytest.fixture
def site(beside: BesideHive) -> Iterator[Site]:
    orders, events = beside.hive_table(), beside.hive_table()
    a_text_table(beside, "raw")
    hive = beside.services.hive
    hive.index, hive.checks, hive.operations = beside.upgrades.index, beside.upgrades.checks, beside.operations
    hive.index.refresh(beside.services.namespaces.catalog(LAKE))
    settings = settings_in(beside.directory / "data")
    background = build_background(settings, beside.services)
    hive.poke = lambda: None
    with listening(create_app(settings, beside.services, background)) as url:
        yield Site(beside, Command(url), orders, events)
