"""How many layers an image may have: few, but more where a build from scratch would read many commits."""

from __future__ import annotations

import pytest

from catalog.keyed.image_build import count_allowed_layers


@pytest.mark.parametrize(("commits", "layers"), [(0, 4), (64, 4), (80, 5), (160, 10), (256, 16), (100_000, 16)])
def test_images_of_many_commits_are_rebuilt_more_rarely(commits: int, layers: int) -> None:
    assert count_allowed_layers(commits) == layers
