import { Button } from '@mantine/core';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { useState } from 'react';

import { answered, api } from '../api/client';
import { importEntries, operation as operationQuery } from '../api/queries';
import type { ImportEntry, ImportState, Operation } from '../api/types';
import { ActionButton } from '../components/action-button';
import { useDo } from '../components/confirm-dialog';
import { Choice } from '../components/choice';
import { DataTable, type Column } from '../components/data-table';
import { ImportMark, OperationMark } from '../components/status-icons';
import { Empty, Note, ProblemNote } from '../components/notes';
import { Facts, Panel } from '../components/panel';
import { paths } from '../lib/paths';
import { OperationBar } from './operations';

interface ImportResult {
  dry_run?: boolean;
  counts?: Partial<Record<ImportState, number>>;
  notes?: string[];
}

const SHOWN: Record<string, ImportState[]> = {
  all: [],
  'need attention': ['conflict', 'ambiguous', 'failed'],
  taken: ['ready', 'registered', 'refreshed'],
};

const COLUMNS: Column<ImportEntry>[] = [
  { key: 'name', title: 'Name', cell: (row) => <span className="mono">{row.name}</span> },
  { key: 'kind', title: 'Kind', cell: (row) => <span className="dim">{row.kind}</span> },
  { key: 'state', title: 'Result', cell: (row) => <ImportMark state={row.state} /> },
  { key: 'why', title: 'Why', cell: (row) => <Remarks entry={row} />, wide: true },
  { key: 'metadata', title: 'Metadata', cell: (row) => <span className="mono dim">{row.metadata_location}</span>, extra: true },
];

function Remarks({ entry }: { entry: ImportEntry }) {
  const remarks = [entry.reason, entry.hint, ...entry.warnings].filter((item) => item !== null && item !== '');
  return <div className="dim wrap-anywhere" style={{ minWidth: 220 }}>{remarks.join(' · ')}</div>;
}

interface ImportProgressProps {
  id: string;
  catalog: string;
  again: () => void;
  /** Starts in earnest what was tried; null when the page no longer knows what was asked. */
  begin: (() => void) | null;
  problem: unknown;
}

/** An import that runs or has ended, and what becomes of each table; it goes on whoever looks. */
export function ImportProgress({ id, catalog, again, begin, problem }: ImportProgressProps) {
  const { data: operation, error } = useQuery(operationQuery(id));
  if (operation === undefined) return <Panel>{error ? <ProblemNote error={error} /> : <span className="dim">…</span>}</Panel>;
  return (
    <>
      <Summary operation={operation} catalog={catalog} again={again} begin={begin} problem={problem} />
      <Entries operation={operation} catalog={catalog} />
    </>
  );
}

interface SummaryProps extends Omit<ImportProgressProps, 'id'> {
  operation: Operation;
}

function Summary({ operation, catalog, again, begin, problem }: SummaryProps) {
  const { dry_run: isPlan = false, counts = {}, notes = [] } = operation.result as ImportResult;
  const runs = operation.status === 'running';
  const ready = counts.ready ?? 0;
  return (
    <Panel
      title={isPlan && !runs ? 'Dry run' : <OperationMark status={operation.status} />}
      aside={runs ? <Steer operation={operation} catalog={catalog} /> : null}
    >
      <div className="stack">
        <span className="mono dim wrap-anywhere">{operation.target}</span>
        {runs && <OperationBar operation={operation} />}
        <Counts counts={counts} />
        {operation.error !== null && (
          <Note tone={runs ? 'warn' : 'bad'} title={operation.error}>
            {operation.hint}
          </Note>
        )}
        {operation.error === null && operation.hint !== null && <Note tone="warn" title={operation.hint} />}
        {notes.map((note) => (
          <Note key={note} title={note} />
        ))}
        {problem !== null && problem !== undefined && <ProblemNote error={problem} />}
        {runs && <span className="dim">Closing this page does not stop it; Home lists it.</span>}
        {!runs && (
          <div className="row">
            {isPlan && begin !== null && (
              <ActionButton disabledReason={ready === 0 ? 'There is nothing to register.' : null} onClick={begin}>
                {`Register ${ready.toLocaleString('en-US')}`}
              </ActionButton>
            )}
            <Button variant="default" onClick={again}>
              {isPlan ? 'Change options' : 'Import more'}
            </Button>
          </div>
        )}
      </div>
    </Panel>
  );
}

const NAMES: Record<ImportState, string> = {
  found: 'waiting',
  ready: 'can be registered',
  registered: 'registered',
  refreshed: 'updated from the source',
  there: 'there already',
  skipped: 'no tables',
  conflict: 'conflicts',
  ambiguous: 'ambiguous',
  failed: 'failed',
};

function Counts({ counts }: { counts: Partial<Record<ImportState, number>> }) {
  const states = (Object.keys(NAMES) as ImportState[]).filter((state) => counts[state] !== undefined);
  if (states.length === 0) return null;
  return <Facts facts={states.map((state) => ({ name: NAMES[state], value: (counts[state] ?? 0).toLocaleString('en-US') }))} />;
}

function Steer({ operation, catalog }: { operation: Operation; catalog: string }) {
  const cancel = useDo('cannot cancel', () =>
    answered(api.POST('/operations/{operation_id}/cancel', { params: { path: { operation_id: operation.id } } })),
  );
  const resume = useDo('cannot resume', () =>
    answered(
      api.POST('/catalogs/{catalog}/imports/{operation_id}/resume', { params: { path: { catalog, operation_id: operation.id } } }),
    ),
  );
  return (
    <div className="row">
      {operation.error !== null && (
        <ActionButton size="compact-xs" loading={resume.isPending} onClick={() => resume.mutate()}>
          Try again now
        </ActionButton>
      )}
      <ActionButton
        variant="default"
        size="compact-xs"
        loading={cancel.isPending}
        disabledReason={operation.allowed_actions.includes('cancel') ? null : 'It stops at its next step.'}
        onClick={() => cancel.mutate()}
      >
        Cancel
      </ActionButton>
    </div>
  );
}

function Entries({ operation, catalog }: { operation: Operation; catalog: string }) {
  const [shown, setShown] = useState('all');
  const found = useInfiniteQuery(importEntries(catalog, operation.id, SHOWN[shown] ?? [], operation.status === 'running'));
  const rows = found.data?.pages.flatMap((page) => page.items);
  return (
    <DataTable
      name="found tables"
      aside={<Choice label="which are shown" value={shown} set={setShown} options={Object.keys(SHOWN).map((item) => ({ value: item, label: item }))} />}
      columns={COLUMNS}
      rows={rows}
      error={found.error}
      id={(row) => `${row.kind} ${row.name} ${row.source}`}
      link={(row) => (row.kind === 'table' && HERE.includes(row.state) ? paths.table(catalog, row.name) : undefined)}
      more={{ has: found.hasNextPage, loading: found.isFetchingNextPage, load: () => void found.fetchNextPage() }}
      empty={<Empty title={shown === 'all' ? 'No tables found yet' : 'None'} />}
    />
  );
}

const HERE: ImportState[] = ['registered', 'refreshed', 'there'];
