"""Descriptions as the management API shows them."""

from __future__ import annotations

from collections.abc import Mapping

from catalog.tables.description import read_description
from firn.protocol.descriptions import DescriptionOut


def build_description_out(properties: Mapping[str, str]) -> DescriptionOut:
    """The description in an object's properties."""
    return DescriptionOut.model_validate(read_description(properties))
