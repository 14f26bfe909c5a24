import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { discardHeld, pipelineRun, publishHeld } from '../../api/pipeline-queries';
import type { Pipeline, PipelineTable } from '../../api/types';
import { ActionButton } from '../../components/action-button';
import { ConfirmDialog } from '../../components/confirm-dialog';
import { Count, When } from '../../components/figures';
import { ProblemNote } from '../../components/notes';
import { Facts, Panel } from '../../components/panel';
import { need, onTable } from '../../lib/access';
import { changedText, definitionOf, heldResults, type RunResult } from '../../lib/pipelines';
import { firn } from '../../lib/terminal';
import { HeldRowsPanel } from './held-rows';
import { Verdict } from './verdict';

interface HeldRunProps {
  pipeline: Pipeline;
  table: PipelineTable;
}

/** The run of a table that waits for approval: what it would change, and the decision about it. */
export function HeldRun({ pipeline, table }: HeldRunProps) {
  const held = table.held_run;
  const { data: run, error } = useQuery({ ...pipelineRun(pipeline.name, held?.job_id ?? ''), enabled: held != null });
  if (held == null) return null;
  if (run === undefined) return error === null ? null : <ProblemNote error={error} what="cannot show the run that waits" />;
  const results = heldResults(run, definitionOf(table).consistent);
  return (
    <Panel title="A run waits for approval" aside={<Decide pipeline={pipeline} table={table} results={results} />}>
      <div className="stack">
        <div>
          The run ended <When at={held.held_at} />
          {run.requested_by !== null && <>; {run.requested_by} has asked for it</>}. Readers see nothing of it, and no other run of{' '}
          {results.length > 1 ? 'these tables' : 'the table'} begins until somebody publishes or discards it.
        </div>
        {results.map(([name, result]) => (
          <Changes key={name} table={name} result={result} isAlone={results.length === 1} />
        ))}
        {results.map(([name]) => (
          <HeldRowsPanel key={name} pipeline={pipeline.name} table={name} run={held.job_id} />
        ))}
      </div>
    </Panel>
  );
}

/** What publishing would do to one table. */
function Changes({ table, result, isAlone }: { table: string; result: RunResult; isAlone: boolean }) {
  const validators = result.validators ?? [];
  return (
    <div className="stack">
      {!isAlone && <h3 className="mono" style={{ margin: 0, fontSize: 13 }}>{table}</h3>}
      <Facts
        facts={[
          { name: 'rows to write', value: <Count value={result.written} />, note: 'new or changed' },
          { name: 'rows to delete', value: <Count value={result.deleted} /> },
          { name: 'rows left out', value: <Count value={result.unchanged} />, note: 'the table has them already' },
          ...(result.dropped ? [{ name: 'rows dropped', value: <Count value={result.dropped} />, note: 'by validators' }] : []),
          ...(result.chunks ? [{ name: 'chunks of backfills', value: <Count value={result.chunks} /> }] : []),
          { name: 'computed', value: result.mode ?? '–', ...(result.reason ? { note: result.reason } : {}) },
        ]}
      />
      {validators.map((verdict) => (
        <Verdict key={verdict.name} verdict={verdict} />
      ))}
    </div>
  );
}

function Decide({ pipeline, table, results }: { pipeline: Pipeline; table: PipelineTable; results: [string, RunResult][] }) {
  const [asks, ask] = useState<'publish' | 'discard'>();
  const needs = pipeline.tables.flatMap(({ name }) => need(onTable(pipeline.catalog, name), 'write'));
  const others = results.map(([name]) => name).filter((name) => name !== table.name);
  const changes = results.map(([name, result]) => (others.length === 0 ? '' : `${name}: `) + changedText(result)).join('; ');
  const together = others.length === 0 ? '' : `${others.join(', ')} ${others.length === 1 ? 'moves' : 'move'} with it. `;
  return (
    <span className="row">
      <ActionButton size="compact-sm" needs={needs} onClick={() => ask('publish')}>
        Publish…
      </ActionButton>
      <ActionButton size="compact-sm" variant="default" needs={needs} onClick={() => ask('discard')}>
        Discard…
      </ActionButton>
      <ConfirmDialog title={`Publish the run of ${table.name}`} opened={asks === 'publish'} close={() => ask(undefined)} yes="Publish" command={firn('pipeline publish', [pipeline.name, table.name])} act={() => publishHeld(pipeline.name, table.name)}>
        One transaction commits the run: {changes}. {together}Readers
        see the rows at once. If somebody else has changed the table since, the server refuses, and nothing changes.
      </ConfirmDialog>
      <ConfirmDialog title={`Discard the run of ${table.name}`} opened={asks === 'discard'} close={() => ask(undefined)} yes="Discard" danger command={firn('pipeline discard', [pipeline.name, table.name])} act={() => discardHeld(pipeline.name, table.name)}>
        The server forgets the changes of the run: {changes}. {together}Readers go on to see the rows of now, and the next run computes from the same checkpoint. This
        cannot be undone.
      </ConfirmDialog>
    </span>
  );
}
