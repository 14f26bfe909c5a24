"""Drains of logs: what both engines share, and the light engine, which needs neither Spark nor Java.

`firn.spark.log_drain` is the other engine. The light one is decision 160; its packages are an extra, so its modules are
loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firn.lazy_names import load_name

if TYPE_CHECKING:
    from firn.drains.light import LightDrain, open_light_drain
    from firn.drains.store import StoreLoader

__all__ = ["LightDrain", "StoreLoader", "open_light_drain"]

_HOMES = {"firn.drains.light": ("LightDrain", "open_light_drain"), "firn.drains.store": ("StoreLoader",)}


def __getattr__(name: str) -> object:
    """Load one of the names above from its module."""
    return load_name(__name__, _HOMES, name)
