"""One target of a run, from its definition to rows that are ready to be committed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from firn.pipelines import Plan, incremental
from firn.pipelines.errors import InvalidDefinition
from firn.pipelines.table_plans import hide_filled
from firn.protocol.backfills import ClaimRequest
from firn.protocol.beside import Take
from firn.protocol.names import join_name
from firn.protocol.pipeline_outputs import OutputMode
from firn.protocol.pipeline_pins import TargetPins
from firn.protocol.pipelines import Refresh, RunResult, TableDefinition
from optimizer.errors import Refused
from optimizer.pipelines.append import choose_append_mode, compute_new_rows
from optimizer.pipelines.auditing import Audit
from optimizer.pipelines.code import CodeComputing, RunCode, build_code, find_outside, plan_table
from optimizer.pipelines.computing import Affected, Computing, open_computing, read_result_schema
from optimizer.pipelines.context import RunContext, SharedInputs
from optimizer.pipelines.exact_rows import describe_state, has_exact_rows
from optimizer.pipelines.few_run import AddedChanges, FewRun, open_few
from optimizer.pipelines.heads import open_head, read_schemas
from optimizer.pipelines.inputs import PinnedInput, list_changed
from optimizer.pipelines.maintaining import (
    Maintained,
    add_changes,
    can_be_exact,
    find_group_changes,
    has_equal_types,
    hides_rows,
)
from optimizer.pipelines.mode import Mode, choose_mode, weigh
from optimizer.pipelines.publishing import ComputedTable, Publishing
from optimizer.pipelines.quarantine import Quarantine
from optimizer.pipelines.selection import Selection, build_condition
from optimizer.pipelines.target import PipelineTarget, add_columns, create_target, find_target, fit_columns

LEAST_ADDED_BYTES = 32 * 2**20
"""Runs over fewer bytes of inputs and targets read groups again, which takes two jobs of Spark less."""


@dataclass(frozen=True)
class TableRun:
    """One target: the parts of its name in the catalog, and its definition."""

    context: RunContext
    parts: tuple[str, ...]
    definition: TableDefinition

    @property
    def name(self) -> str:
        """NAMESPACE.TABLE, quoted where necessary."""
        return join_name(self.parts)

    def prepare(self) -> None:
        """Create the target if it is missing: the writer's registration needs a table."""
        if find_target(self.context.lake, self.name) is None:
            if self._is_columns:
                raise Refused(f"{self.name} does not exist: the pipeline fills columns of a table that others create")
            self.context.stage("creating the table")
            create_target(self.context.lake, self.name, self.definition, self._read_result_schema())
            self.context.say(f"created {self.name}")
        if self._quarantine is not None:
            self._quarantine.create()

    @property
    def _quarantine(self) -> Quarantine | None:
        name = self.definition.quarantine
        return None if name is None else Quarantine(self.context.lake, name, self.context.run_id)

    def compute(self, pins: TargetPins, inputs: SharedInputs) -> ComputedTable:
        """Compute up to the new pins; nobody can read the rows yet. Raises Refused, AuditFailed."""
        since = None if pins.since is None else pins.since.pins
        changed = [] if since is None else list_changed(since, pins.until.pins)
        # What the server shows now is not older than the writer's position.
        target = self._find_target()
        has_backfill = pins.chunks is not None or pins.replay is not None
        if since is not None and not changed and not has_backfill and not self.context.is_full_requested:
            return ComputedTable(target, pins, RunResult(mode="nothing", reason="no input has changed"))
        opened = inputs.open(since, pins.until.pins)
        replayed = {} if pins.replay is None else inputs.open(pins.replay.pins, pins.until.pins)
        computed = self._compute_pinned(target, pins, opened, changed, replayed)
        return replace(
            computed,
            result=computed.result.model_copy(
                update={
                    "inputs": [opened[name].count_changes() for name in changed],
                    "commits_left": self._say_left(pins),
                }
            ),
        )

    def _say_left(self, pins: TargetPins) -> int:
        """Say how many commits a bounded run leaves (docs/protocols.md, rule 8.14)."""
        if pins.commits_left:
            self.context.say(f"{pins.commits_left:,} commits left: the next run continues")
        return pins.commits_left

    def _compute_pinned(
        self,
        target: PipelineTarget,
        pins: TargetPins,
        inputs: Mapping[str, PinnedInput],
        changed: Sequence[str],
        replayed: Mapping[str, PinnedInput],
    ) -> ComputedTable:
        context = self.context
        states = [state for pinned in inputs.values() for state in pinned.list_states()]
        context.check_reads([*states, *target.list_states()])
        plan = self._plan(read_schemas({name: pinned.read_new() for name, pinned in inputs.items()}))
        self._check_columns(plan)
        measured = {name: pinned.measure() for name, pinned in inputs.items()}
        mode = self._choose_mode(target, pins, inputs, plan, measured, changed)
        if not mode.is_full and replayed:
            mode = self._choose_replay_mode(plan, pins, replayed)
        if mode.reason is not None:
            context.say(f"{'full' if mode.is_full else 'append' if self._is_append else 'incremental'}: {mode.reason}")
        if mode.is_full and pins.has_backfills:
            self._claim_chunks(pins)
            target = self._find_target()  # no chunk beside this run is committed after the claim (rule 8.27)
        context.tuning.add(sum(total for _, total in measured.values()) + target.total_bytes)
        earlier = None
        if not mode.is_full and pins.replay is not None:
            context.stage("finding the changes to replay")
            replaying = self._open(plan, replayed)
            earlier = replaying.find_affected(list_changed(pins.replay.pins, pins.until.pins))
        computing = self._open(plan, inputs, earlier)
        is_exact = can_be_exact(self.definition, plan) and not hides_rows(target, inputs)
        is_exact = is_exact and (mode.is_full or has_exact_rows(target, pins))
        computed = self._compute_rows(target, pins, computing, None if mode.is_full else changed, is_exact=is_exact)
        if is_exact:
            computed = computed.with_exact_state(describe_state(computed.target))
        weighed = {"incremental_bytes": mode.incremental_bytes, "full_bytes": mode.full_bytes}
        return replace(computed, result=computed.result.model_copy(update={"reason": mode.reason, **weighed}))

    def _open(self, plan: Plan, inputs: Mapping[str, PinnedInput], earlier: Affected | None = None) -> Computing:
        spark, code = self.context.spark, self._code
        computing = (
            Computing(spark, plan, inputs, earlier)
            if code is None
            else CodeComputing(spark, plan, inputs, earlier, code=code)
        )
        return self.context.stack.enter_context(open_computing(computing))

    @cached_property
    def _code(self) -> RunCode | None:
        return build_code(self.context, self.definition)

    def _choose_mode(
        self,
        target: PipelineTarget,
        pins: TargetPins,
        inputs: Mapping[str, PinnedInput],
        plan: Plan,
        measured: Mapping[str, tuple[int, int]],
        changed: Sequence[str],
    ) -> Mode:
        refresh, is_requested = self.definition.refresh, self.context.is_full_requested
        if self._is_append:
            return choose_append_mode(self.definition, target, pins, is_requested=is_requested)
        obstacle = None if self._code is None else find_outside(plan, self._code.code, inputs, changed)
        mode = choose_mode(plan, refresh, pins, inputs, is_requested=is_requested, obstacle=obstacle)
        if (
            self._is_columns
            and not mode.is_full
            and not {*plan.scope} <= {name.lower() for name in self.definition.key}
        ):
            # Rows that others have just added do not have the values of the other columns yet.
            return Mode(is_full=True, reason=f"its scope {', '.join(plan.scope)} is not part of the key")
        if refresh is Refresh.AUTO and not mode.is_full:
            mode = weigh(plan, measured, changed, target.total_bytes)
        return mode

    def _choose_replay_mode(self, plan: Plan, pins: TargetPins, replayed: Mapping[str, PinnedInput]) -> Mode:
        """The mode of a run that replays changes: all rows if these cannot be followed."""
        changed = [] if pins.replay is None else list_changed(pins.replay.pins, pins.until.pins)
        obstacle = None if self._code is None else find_outside(plan, self._code.code, replayed, changed)
        return choose_mode(plan, self.definition.refresh, pins, replayed, is_requested=False, obstacle=obstacle)

    def _compute_rows(
        self,
        target: PipelineTarget,
        pins: TargetPins,
        computing: Computing,
        changed: Sequence[str] | None,
        *,
        is_exact: bool,
    ) -> ComputedTable:
        """Compute all rows if `changed` is None, otherwise those that the changed inputs affect, or add."""
        if changed is None:
            return self._compute_all(target, pins, computing)
        if self._is_append:
            return self._append_rows(target, pins, computing, changed)
        few = open_few(self.context, self.definition, computing, target, pins)
        added = self._add_changes(target, pins, computing, changed, few) if is_exact else None
        if added is not None:
            return added
        selection = self._select(pins, computing, changed)
        if selection is None:
            return ComputedTable(target, pins, RunResult(mode="incremental", keys=0))
        self.context.stage("computing")
        computed = None if few is None else few.recompute(selection)
        if computed is None:
            computed = self._prepare(target, pins, computing, selection.compute(computing, target), selection)
        chunks = 0 if pins.chunks is None else len(pins.chunks.chunks)
        update = {"mode": "incremental", "keys": selection.count, "chunks": chunks}
        return replace(computed, result=computed.result.model_copy(update=update))

    def _compute_all(self, target: PipelineTarget, pins: TargetPins, computing: Computing) -> ComputedTable:
        self.context.stage("computing")
        rows = computing.compute_full()
        if not self._is_columns:
            target = self._add_columns(target, rows.schema)
        computed = self._prepare(target, pins, computing, rows, None)
        return replace(computed, result=computed.result.model_copy(update={"mode": "full"}))

    def _prepare(
        self,
        target: PipelineTarget,
        pins: TargetPins,
        computing: Computing,
        rows: DataFrame,
        selection: Selection | None,
    ) -> ComputedTable:
        """Audit computed rows, and compare them with the target's."""
        audit = self._build_audit(rows, computing)
        if audit is not None and selection is not None:
            audit = replace(audit, compute_full=lambda: self._fit(computing.compute_full(), target))
        return self._build_publishing(target, pins, computing, audit).prepare(rows, selection)

    def _add_changes(
        self, target: PipelineTarget, pins: TargetPins, computing: Computing, changed: Sequence[str], few: FewRun | None
    ) -> ComputedTable | None:
        """Add the changes of an input to counts and sums (docs/protocols.md, rule 8.29); None to recompute groups."""
        group_changes = find_group_changes(computing.plan, pins, changed)
        is_large = self.context.tuning.total_bytes >= LEAST_ADDED_BYTES
        if group_changes is None or (few is None and not is_large) or not has_equal_types(computing, target):
            return None
        self.context.stage("adding changes")
        added = None if few is None else few.add_changes(changed[0], group_changes, self.context.tuning)
        if added is None and not is_large:
            return None
        if added is None:
            maintained = add_changes(computing, target, changed[0], group_changes, are_found=few is not None)
            added = self._prepare_added(target, pins, computing, maintained)
        result = added.computed.result
        self.context.say(
            f"adds changes of {changed[0]} to counts and sums: {added.affected} values of "
            f"{', '.join(computing.plan.scope)} are affected, {added.recomputed} of them recomputed"
        )
        update = {"mode": "incremental", "keys": added.affected, "recomputed": added.recomputed}
        return replace(added.computed, result=result.model_copy(update=update))

    def _prepare_added(
        self, target: PipelineTarget, pins: TargetPins, computing: Computing, maintained: Maintained | None
    ) -> AddedChanges:
        if maintained is None:
            return AddedChanges(ComputedTable(target, pins, RunResult(mode="")), 0, 0)
        computed = self._prepare(target, pins, computing, maintained.rows, maintained.selection)
        return AddedChanges(computed, maintained.selection.count, maintained.recomputed)

    def compute_chunk(self, take: Take, inputs: SharedInputs) -> ComputedTable:
        """Compute a chunk at the table's checkpoint, compared with the rows that it had then (rule 8.24)."""
        target = self._find_target().at_version(take.version)
        opened = inputs.open(None, take.at.pins)
        states = [state for pinned in opened.values() for state in pinned.list_states()]
        self.context.check_reads([*states, *target.list_states()])
        plan = self._plan(read_schemas({name: pinned.read_new() for name, pinned in opened.items()}))
        self.context.tuning.add(sum(total for _, total in (pinned.measure() for pinned in opened.values())))
        computing = self._open(plan, opened)
        selection = Selection(None, build_condition(take.chunks, plan.scope, self.context.deterministic))
        writer = target.lake.table(target.table).writers.get(take.writer)
        pins = TargetPins(table=self.name, writer=writer, since=None, full_reason=None, until=take.at)
        self.context.stage("computing")
        return self._prepare(target, pins, computing, selection.compute(computing, target), selection)

    def _fit(self, rows: DataFrame, target: PipelineTarget) -> DataFrame:
        return fit_columns(rows, target, target.read_fields())

    def _add_columns(self, target: PipelineTarget, schema: StructType) -> PipelineTarget:
        """The target with the columns that only the query has; readers see nulls there until the commit."""
        added = add_columns(target, schema)
        if not added:
            return target
        self.context.say(f"added columns: {', '.join(added)}")
        return self._find_target()

    def _select(self, pins: TargetPins, computing: Computing, changed: Sequence[str]) -> Selection | None:
        """What the changes affect, and the chunks of the run (docs/protocols.md, rule 8.10); None for nothing."""
        self.context.stage("finding affected rows")
        affected = computing.find_affected(changed)
        if affected is not None:
            self.context.say(f"{affected.count} values of {', '.join(affected.scope)} are affected")
        if pins.chunks is None:
            return None if affected is None else Selection(affected)
        self.context.say(f"{len(pins.chunks.chunks)} chunks of backfill {pins.chunks.backfill}")
        condition = build_condition(pins.chunks, computing.plan.scope, self.context.deterministic)
        return Selection(affected, condition)

    def _claim_chunks(self, pins: TargetPins) -> None:
        """Let the commit of all rows end the backfills that are older than the pins (rule 8.12)."""
        claim = ClaimRequest(table=self.name, epoch=pins.writer.epoch, checkpoint=pins.until.id)
        claimed = self.context.claim(claim).chunks
        self.context.say(f"all rows: this run ends {len(claimed)} backfills")

    def _append_rows(
        self, target: PipelineTarget, pins: TargetPins, computing: Computing, changed: Sequence[str]
    ) -> ComputedTable:
        """Compute the rows that new rows of streams add."""
        self.context.stage("computing")
        rows = compute_new_rows(computing, self.definition.streams, changed)
        if rows is None:
            return ComputedTable(target, pins, RunResult(mode="append"))
        audit = self._build_audit(rows, computing)
        computed = self._build_publishing(target, pins, computing, audit).prepare_append(rows)
        return replace(computed, result=computed.result.model_copy(update={"mode": "append"}))

    def _build_publishing(
        self, target: PipelineTarget, pins: TargetPins, computing: Computing, audit: Audit | None
    ) -> Publishing:
        context = self.context
        return Publishing(target, pins, computing, context.stage, audit, self._quarantine, holds=context.holds)

    @property
    def _is_append(self) -> bool:
        return self.definition.output_mode is OutputMode.APPEND

    @property
    def _is_columns(self) -> bool:
        return self.definition.output_mode is OutputMode.COLUMNS

    def _check_columns(self, plan: Plan) -> None:
        """Raise Refused for a query that may give other values each time: its runs would start each other."""
        names = {name.lower() for name in self.definition.inputs}
        if self._is_columns and self.name.lower() in names and not plan.is_incremental:
            raise Refused(f"{self.name} reads itself, and its query must be computed in full: {plan.reasons[0]}")

    def _build_audit(self, rows: DataFrame, computing: Computing) -> Audit | None:
        """The validators of the table. Raises Refused for one that does not fit the query."""
        definition = self.definition
        if not definition.validators:
            return None
        try:
            return Audit(
                spark=self.context.spark,
                validators=definition.validators,
                columns=rows.columns,
                inputs=definition.inputs,
                key=definition.key,
                read_input=lambda name: computing.inputs[name].read_new(),
                texts=self.context.texts,
            )
        except InvalidDefinition as problem:
            raise Refused(f"{definition.path}: {problem.message}") from problem

    def _find_target(self) -> PipelineTarget:
        """The target as it is now. Raises Refused if it has another key than the definition."""
        target = find_target(self.context.lake, self.name, self.definition.columns)
        if target is None:
            raise Refused(f"{self.name} was dropped while the run began: run again")
        defined, keyed = [key.lower() for key in self.definition.key], [key.lower() for key in target.shown.primary_key]
        if sorted(defined) != sorted(keyed):
            raise Refused(
                f"{target.path} has the primary key {', '.join(keyed) or '(none)'}, and the pipeline says "
                f"{', '.join(defined) or '(none)'}: drop the table, or change the definition"
            )
        return target

    def _read_result_schema(self) -> StructType:
        """The columns of the query over the inputs of now. Nothing is read."""
        heads = {name: open_head(self.context.lake, name) for name in self.definition.inputs}
        if self._code is not None:
            return self._read_code_schema(self._code, heads)
        return read_result_schema(self.context.spark, self._plan(read_schemas(heads)), heads)

    def _read_code_schema(self, code: RunCode, heads: Mapping[str, DataFrame]) -> StructType:
        """The columns that code gives for no rows; code that counts or collects rows runs for it."""
        empty = {name: head.where("false") for name, head in heads.items()}
        if not code.code.is_sql:
            return code.compute(empty, "full").schema
        plan = self._plan(read_schemas(heads))
        with open_computing(Computing(self.context.spark, plan, {})) as computing:
            return code.transform(computing.compute_full(empty), "full").schema

    def _plan(self, schema: Mapping[str, Mapping[str, str]]) -> Plan:
        query, key = self.definition.query, self.definition.key
        try:
            schema = hide_filled(schema, self.definition.name, self.definition.columns)
            if self._code is not None:
                return plan_table(self._code.code, self.definition, schema, self.context.deterministic)
            return incremental(query, schema, key=key, deterministic=self.context.deterministic)
        except InvalidDefinition as problem:
            raise Refused(f"{self.definition.path}: {problem.message}") from problem
