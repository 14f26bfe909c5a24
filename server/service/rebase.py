"""An append that was overtaken, put onto the head that has overtaken it."""

from __future__ import annotations

from dataclasses import replace

from catalog.commits.rebase import OvertakenAppend, rebase_append
from catalog.ports.manifests import ManifestLists
from server.service.facts import Situation
from server.service.mirroring import Rewritten, rewritten


def on_new_head(lists: ManifestLists, situation: Situation, append: OvertakenAppend) -> Rewritten:
    """What the append makes of the table as it is now; nothing is written yet. Raises the append's refusal."""
    metadata = situation.facts.metadata
    joined = lists.joined(metadata, append)
    if joined is None:
        raise append.refusal
    (planned,) = rewritten(situation, rebase_append(metadata, append, joined), now_ms=situation.now_ms)
    return replace(planned, manifest_list=joined)
