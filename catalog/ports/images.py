"""Builds and writes images of keyed tables (docs/protocols.md#images)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from firn.protocol.tasks.image import Layer, LayerTask


class LayerBuilder(Protocol):
    """Builds the data files of an image's layer."""

    def build(self, task: LayerTask, check: Callable[[Sequence[str]], None]) -> Layer:
        """Write the layer's files.

        The builder calls `check` with the files of the pair before it opens them; what `check` raises ends the build
        and is raised here. Raises NotFound for a file that is gone, and Unavailable when the builder fails, dies or
        takes too long. Files of a failed build may be left, and nothing names them.
        """
