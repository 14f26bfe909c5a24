"""Parts of a data platform that Firn itself can start on one machine, each as a child process.

They are for trials, tests and small installations. Each part ends with the process that started it.

The metastore's Thrift client takes half a second to import, so `EmbeddedMetastore` loads its module on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firn.lazy_names import load_name

if TYPE_CHECKING:
    from firn.embedded.kafka import EmbeddedKafka
    from firn.embedded.metastore import EmbeddedMetastore

__all__ = ["EmbeddedKafka", "EmbeddedMetastore"]

_HOMES = {"firn.embedded.kafka": ("EmbeddedKafka",), "firn.embedded.metastore": ("EmbeddedMetastore",)}


def __getattr__(name: str) -> object:
    """Load one of the names above from its module."""
    return load_name(__name__, _HOMES, name)
