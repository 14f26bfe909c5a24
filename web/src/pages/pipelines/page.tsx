import { Menu, Tabs } from '@mantine/core';
import { IconChevronDown, IconPlayerPlay } from '@tabler/icons-react';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { useParams } from 'react-router';

import { pipeline as pipelineQuery, pipelineGraph, resetTable, runTable } from '../../api/pipeline-queries';
import type { Pipeline, PipelineTable } from '../../api/types';
import { ActionButton, ActionMenuItem } from '../../components/action-button';
import { ConfirmDialog, useDo } from '../../components/confirm-dialog';
import { When } from '../../components/figures';
import { TableLink } from '../../components/job-parts';
import { Note, ProblemNote } from '../../components/notes';
import { Facts, Page, Panel } from '../../components/panel';
import { PipelineMark } from '../../components/pipeline-mark';
import { need, onTable } from '../../lib/access';
import { many } from '../../lib/format';
import { definitionOf, triggerText } from '../../lib/pipelines';
import { firn } from '../../lib/terminal';
import { useUrlState } from '../../lib/url-state';
import { BackfillForm, whyNoBackfill } from './backfill-form';
import { Backfills } from './backfills';
import { Graph } from './graph';
import { HeldRun } from './held-run';
import { Lineage } from './lineage';
import { NextRun } from './next-run';
import { QueryFiles } from './query';
import { Runs } from './runs';
import { Versions } from './versions';

const TABS = ['table', 'runs', 'versions'];

/** One pipeline: its tables and inputs as a graph, and the chosen table with its query and its runs. */
export function PipelinePage() {
  const { pipeline: name = '' } = useParams();
  const { data, error } = useQuery(pipelineQuery(name));
  const { data: graph } = useQuery(pipelineGraph(name));
  const [get, set] = useUrlState();
  if (data === undefined) {
    return (
      <Page title={<span className="mono">{name}</span>}>
        {error === null ? <span className="dim">…</span> : <ProblemNote error={error} what="cannot show the pipeline" />}
      </Page>
    );
  }
  const chosen = data.tables.find((table) => table.name === get('table')) ?? data.tables.at(-1);
  const tab = TABS.find((item) => item === get('tab')) ?? 'table';
  return (
    <Page
      title={<span className="mono">{data.name}</span>}
      sub={
        <>
          {many(data.tables.length, 'table')} in <span className="mono">{data.catalog}</span>, version {data.version}, changed <When at={data.changed_at} />
          {data.owner !== null && <> by {data.owner}</>}
        </>
      }
      actions={chosen && <Actions pipeline={data} table={chosen} />}
    >
      <Graph tables={data.tables} graph={graph} chosen={chosen?.name} choose={(table) => set({ table })} />
      <Tabs value={tab} onChange={(value) => set({ tab: value === 'table' ? undefined : (value ?? undefined) })} keepMounted={false}>
        <Tabs.List aria-label="details">
          <Tabs.Tab value="table">Table</Tabs.Tab>
          <Tabs.Tab value="runs">Runs</Tabs.Tab>
          <Tabs.Tab value="versions">Versions</Tabs.Tab>
        </Tabs.List>
        <Tabs.Panel value="table" pt={12}>
          {chosen && <Chosen pipeline={data} table={chosen} />}
        </Tabs.Panel>
        <Tabs.Panel value="runs" pt={12}>
          <Runs pipeline={data.name} catalog={data.catalog} table={get('table')} />
        </Tabs.Panel>
        <Tabs.Panel value="versions" pt={12}>
          <Versions pipeline={data.name} />
        </Tabs.Panel>
      </Tabs>
    </Page>
  );
}

/** Why no run of a table can begin, by its state. */
const BUSY: Record<string, string> = {
  running: 'A run of this table waits or works.',
  held: 'A run of this table waits for approval: publish or discard it first.',
};

function Actions({ pipeline, table }: { pipeline: Pipeline; table: PipelineTable }) {
  const [asks, ask] = useState<'full' | 'reset' | 'backfill'>();
  const busy = BUSY[table.state] ?? null;
  const needs = pipeline.tables.flatMap(({ name }) => need(onTable(pipeline.catalog, name), 'write'));
  const run = useDo(`cannot run ${table.name}`, () => runTable(pipeline.name, table.name, false));
  return (
    <>
      <ActionButton leftSection={<IconPlayerPlay size={14} />} needs={needs} disabledReason={busy} loading={run.isPending} onClick={() => run.mutate()}>
        Run {table.name}
      </ActionButton>
      <Menu position="bottom-end">
        <Menu.Target>
          <ActionButton variant="default" rightSection={<IconChevronDown size={13} />} needs={needs}>
            More
          </ActionButton>
        </Menu.Target>
        <Menu.Dropdown>
          <ActionMenuItem disabledReason={busy} onClick={() => ask('full')}>
            Run in full…
          </ActionMenuItem>
          <ActionMenuItem disabledReason={whyNoBackfill(table)} onClick={() => ask('backfill')}>
            Compute some rows again…
          </ActionMenuItem>
          <ActionMenuItem disabledReason={null} onClick={() => ask('reset')}>
            Forget the checkpoint…
          </ActionMenuItem>
        </Menu.Dropdown>
      </Menu>
      <BackfillForm pipeline={pipeline} table={table} opened={asks === 'backfill'} close={() => ask(undefined)} />
      <ConfirmDialog title={`Run ${table.name} in full`} opened={asks === 'full'} close={() => ask(undefined)} yes="Run in full" command={firn('pipeline run', [pipeline.name, table.name], { full: true })} act={() => runTable(pipeline.name, table.name, true)}>
        The run computes all rows of the table from all rows of its inputs, and commits those that differ. Readers see the table as it is until then.
      </ConfirmDialog>
      <ConfirmDialog title={`Forget the checkpoint of ${table.name}`} opened={asks === 'reset'} close={() => ask(undefined)} yes="Forget the checkpoint" command={firn('pipeline reset', [pipeline.name, table.name])} act={() => resetTable(pipeline.name, table.name)}>
        The rows stay. The next run computes all of them. A run that works now commits nothing, and one that waits for approval is discarded.
      </ConfirmDialog>
    </>
  );
}

function Chosen({ pipeline, table }: { pipeline: Pipeline; table: PipelineTable }) {
  const definition = definitionOf(table);
  const run = table.last_run;
  return (
    <div className="stack">
      {table.state === 'failed' && run?.error && <Note tone="bad" title="The last run failed">{run.error}</Note>}
      <HeldRun pipeline={pipeline} table={table} />
      {definition.reasons.map((reason) => (
        <Note key={`${reason.text} ${reason.path ?? ''} ${reason.line ?? ''}`} tone="warn" title={`Each run computes all rows: ${reason.text}`}>
          {reason.path ?? definition.path}
          {reason.line !== null && <>, line {reason.line}</>}
          {reason.remedy !== null && <>. {reason.remedy}.</>}
        </Note>
      ))}
      <Panel title={table.state === 'new' ? <span className="mono">{table.name}</span> : <TableLink catalog={pipeline.catalog} table={table.name} />} aside={<PipelineMark state={table.state} />}>
        <Facts
          facts={[
            { name: 'computed', value: definition.incremental ? 'incrementally' : 'in full', ...(definition.incremental ? { note: `by ${definition.scope.join(', ')}` } : {}) },
            { name: 'key', value: definition.key.length === 0 ? <span className="dim">none</span> : <span className="mono">{definition.key.join(', ')}</span> },
            { name: 'refresh', value: definition.refresh },
            { name: 'runs', value: triggerText(definition.trigger) },
            { name: 'last run', value: <When at={run?.ended_at ?? run?.created_at ?? null} /> },
            { name: 'next run', value: <When at={table.next_run?.at ?? null} />, ...(table.next_run == null ? {} : { note: table.next_run.reason }) },
            { name: 'oldest change not shown', value: <When at={table.behind_since} /> },
          ]}
        />
      </Panel>
      <NextRun pipeline={pipeline.name} table={table.name} />
      <Backfills pipeline={pipeline} table={table} />
      <QueryFiles pipeline={pipeline} table={table} />
      <Lineage pipeline={pipeline} table={table} />
      {definition.validators.length > 0 && (
        <Panel title="Validators">
          <Facts columns facts={definition.validators.map(({ name, severity }) => ({ name, value: severity }))} />
        </Panel>
      )}
    </div>
  );
}
