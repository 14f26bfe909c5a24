"""Merges in the model of images: a rewrite, an adoption with its kills and lost answers, and rollbacks of a pair."""

from __future__ import annotations

from collections.abc import Iterator

from tests.models.image_commits import build_layer, commit_base, move_base, rewrite_file, spend
from tests.models.images import (
    BaseSnapshot,
    Image,
    Merge,
    Positions,
    Row,
    Rules,
    World,
    choose_newest,
    find_pending,
)

Steps = Iterator[tuple[str, World]]


class MergeModel:
    def __init__(self, rules: Rules) -> None:
        self.rules = rules

    def steps(self, world: World, left: dict[str, int]) -> Steps:
        """A merge starts, goes on, commits or dies; or the pair is rolled back."""
        yield from self._rollbacks(world, left)
        merge = world.merge
        if merge is None:
            yield from self._starts(world, left)
        elif merge.has_no_answer:
            yield from self._after_lost_answer(world, merge)
        elif merge.written < len(merge.new):
            number = merge.new[merge.written]
            going = merge._replace(written=merge.written + 1)
            yield "the adoption writes a file", world._replace(disk=world.disk | {number}, merge=going)
            if left["crash"]:
                yield "the optimizer is killed", spend(world, "crash")._replace(merge=None)
        else:
            yield from self._commits(world, merge, left)

    def _starts(self, world: World, left: dict[str, int]) -> Steps:
        base, change = world.pair
        if not left["merge"] or not find_pending(base, change.files):
            return
        started = spend(world, "merge")
        yield "rewrite starts", started._replace(merge=Merge("rewrite", world.b, world.c, change.sequence))
        for through in sorted({row.sequence for row in find_pending(base, change.files)} | {change.sequence}):
            layer, new = build_layer(world, None, change.files, self.rules, through)
            adoption = Merge("adoption", world.b, world.c, through, layer, new)
            after = started._replace(merge=adoption, next_file=world.next_file + len(new))
            yield f"adoption through {through} starts", after
            for file in base.files:
                layer_, new_ = rewrite_file(world, layer, new, file, self.rules)
                rewrite = adoption._replace(layer=layer_, new=new_, rewritten=file.number)
                after = started._replace(merge=rewrite, next_file=world.next_file + len(new_))
                yield f"adoption through {through} that writes file {file.number} again starts", after
        if not self.rules.adopts_own_files:
            for image in world.images:
                if image.b == world.b and image.own:
                    through = world.changes[image.c].sequence
                    adoption = Merge("adoption", image.b, image.c, through, image)
                    yield "adoption of an image starts", started._replace(merge=adoption)

    def _commits(self, world: World, merge: Merge, left: dict[str, int]) -> Steps:
        idle = world._replace(merge=None)
        must_be_head = merge.kind == "rewrite" or self.rules.adopts_on_head
        if merge.b != world.b and must_be_head:
            yield f"{merge.kind} is refused, and its files are deleted", _delete(idle, merge)
            return
        after = _rewrite(idle, merge) if merge.kind == "rewrite" else self._adopt(idle, merge)
        yield f"{merge.kind} commits", after
        if left["crash"]:
            yield f"{merge.kind} dies before its commit", spend(idle, "crash")
            lost = merge._replace(has_no_answer=True)
            yield f"{merge.kind} commits, the answer is lost", spend(after, "crash")._replace(merge=lost)
            if not self.rules.moves_watermark_with_files:
                base = world.bases[world.b]._replace(through=merge.through)
                yield "the watermark moves, and the optimizer is killed", move_base(spend(idle, "crash"), base)

    def _after_lost_answer(self, world: World, merge: Merge) -> Steps:
        idle = world._replace(merge=None)
        if self.rules.replays_commits:
            yield "the commit is sent again, and the recorded answer comes", idle
        else:
            yield "the commit is sent again and refused, and the files are deleted", _delete(idle, merge)
        if self.rules.keeps_files_in_doubt:
            yield "the outcome is unknown, and the server's record decides", idle
        else:
            yield "the outcome is unknown, and the files are deleted", _delete(idle, merge)

    def _adopt(self, world: World, merge: Merge) -> World:
        base = world.bases[world.b]
        assert merge.layer is not None
        through = merge.through if self.rules.merges_through_the_pair else world.changes[world.c].sequence
        positions = base.positions | (merge.layer.own - {file.number for file in merge.layer.packs})
        gone = merge.rewritten if self.rules.removes_rewritten else None
        files = (*(file for file in base.files if file.number != gone), *merge.layer.packs)
        hidden = frozenset(place for place in self._hide(base, merge.layer) if place[0] != gone)
        return move_base(world, BaseSnapshot(files, hidden, through, positions))

    def _hide(self, base: BaseSnapshot, layer: Image) -> Positions:
        if self.rules.keeps_old_positions:
            return base.hidden | layer.hidden
        hit = {number for number, _ in layer.hidden}
        return layer.hidden | {(number, position) for number, position in base.hidden if number not in hit}

    def _rollbacks(self, world: World, left: dict[str, int]) -> Steps:
        """Both stores go back to an earlier pair, while the optimizer of a running job goes on."""
        if not left["rollback"]:
            return
        for b, c, log in world.states:
            if (b, c) == (world.b, world.c) or b not in world.kept_bases:
                continue
            states = tuple(state for state in world.states if state[2] <= log)
            after = spend(world, "rollback")._replace(log=world.log[:log], states=states)
            if self.rules.rolls_back_by_new_snapshots:
                after = move_base(after, world.bases[b])
                changes = (*world.changes, world.changes[c]._replace(sequence=world.changes[-1].sequence + 1))
                after = after._replace(changes=changes, c=len(world.changes))
            else:
                after = after._replace(b=b, c=c)
            yield f"rollback to (B{b}, C{c})", after


def _rewrite(world: World, merge: Merge) -> World:
    base, change = world.bases[merge.b], world.changes[merge.c]
    newest = choose_newest(base, change.files, Rules())
    live = [r for f in base.files for i, r in enumerate(f.rows) if (f.number, i) not in base.hidden]
    rows = [row for row in live if row.key not in newest]
    rows += [Row(r.key, r.part, r.value) for r in newest.values() if r.op != "D"]
    return commit_base(world, tuple(rows), BaseSnapshot((), frozenset(), 0), frozenset(), merge.through)


def _delete(world: World, merge: Merge) -> World:
    """The optimizer deletes the files that it has written."""
    return world._replace(disk=world.disk - set(merge.new))
