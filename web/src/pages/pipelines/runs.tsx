import { Drawer } from '@mantine/core';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Link } from 'react-router';

import { pipelineRun, pipelineRuns } from '../../api/pipeline-queries';
import type { JobStatus, Run } from '../../api/types';
import { DataTable, type Column } from '../../components/data-table';
import { Count, Span, When } from '../../components/figures';
import { TableLink } from '../../components/job-parts';
import { Empty, Note, ProblemNote } from '../../components/notes';
import { Facts, Panel } from '../../components/panel';
import { JobMark } from '../../components/status-icons';
import { bytes, span } from '../../lib/format';
import { paths } from '../../lib/paths';
import { changesText, quarantinesOf, resultOf, type RunResult } from '../../lib/pipelines';
import { useUrlState } from '../../lib/url-state';
import { Verdict } from './verdict';

const COLUMNS: Column<Run>[] = [
  { key: 'at', title: 'Asked for', cell: (row) => <When at={row.created_at} /> },
  { key: 'table', title: 'Table', cell: (row) => <span className="mono">{row.table}</span>, wide: true },
  { key: 'state', title: 'State', cell: (row) => <JobMark status={row.status as JobStatus} /> },
  { key: 'mode', title: 'Computed', cell: (row) => resultOf(row).mode ?? '–' },
  { key: 'keys', title: 'Keys', cell: (row) => <Count value={resultOf(row).keys} />, right: true, help: 'affected values of the scope' },
  { key: 'written', title: 'Written', cell: (row) => <Count value={resultOf(row).written} />, right: true },
  { key: 'unchanged', title: 'Left out', cell: (row) => <Count value={resultOf(row).unchanged} />, right: true, help: 'computed rows that the table has already' },
  { key: 'deleted', title: 'Deleted', cell: (row) => <Count value={resultOf(row).deleted} />, right: true },
  { key: 'dropped', title: 'Dropped', cell: (row) => <Count value={resultOf(row).dropped} />, right: true, extra: true, help: 'computed rows that validators left out' },
  { key: 'took', title: 'Took', cell: (row) => <Span seconds={secondsOf(row)} />, right: true },
  { key: 'full', title: 'Last full run', cell: (row) => <Span seconds={row.full_seconds} />, right: true, extra: true, help: 'how long the last full run before it took' },
  { key: 'by', title: 'Asked by', cell: (row) => row.requested_by ?? '–', extra: true },
  { key: 'version', title: 'Version', cell: (row) => <Count value={row.version} />, right: true, extra: true },
];

function secondsOf({ leased_at: began, ended_at: ended }: Run): number | null {
  return began === null || ended === null ? null : (Date.parse(ended) - Date.parse(began)) / 1000;
}

/** The runs of a pipeline, or of one table; one of them beside the list. */
export function Runs({ pipeline, catalog, table }: { pipeline: string; catalog: string; table: string | undefined }) {
  const [get, set] = useUrlState();
  const listed = useInfiniteQuery(pipelineRuns(pipeline, table));
  const id = get('run');
  return (
    <>
      <DataTable
        name="runs"
        title={table === undefined ? 'Runs of all tables' : `Runs of ${table}`}
        columns={COLUMNS}
        rows={listed.data?.pages.flatMap((page) => page.items)}
        error={listed.error}
        id={(row) => row.job_id}
        link={(row) => `${paths.pipeline(pipeline, 'runs')}${table === undefined ? '' : `&table=${encodeURIComponent(table)}`}&run=${row.job_id}`}
        more={{ has: listed.hasNextPage, loading: listed.isFetchingNextPage, load: () => void listed.fetchNextPage() }}
        empty={<Empty title="No run yet">Press Run, or type <code className="mono">firn pipeline run {pipeline} {table ?? 'TABLE'}</code></Empty>}
      />
      <Drawer opened={id !== undefined} onClose={() => set({ run: undefined })} position="right" size="xl" title="Run" closeButtonProps={{ 'aria-label': 'close' }}>
        {id !== undefined && <Details pipeline={pipeline} catalog={catalog} id={id} />}
      </Drawer>
    </>
  );
}

/** Says that the run has added changes to counts and sums, and how many keys it had to compute again. */
function addedNote(result: RunResult): { note?: string } {
  if (result.recomputed === undefined || result.recomputed === null) return {};
  return { note: `changes were added to counts and sums; ${result.recomputed.toLocaleString('en')} recomputed` };
}

function Details({ pipeline, catalog, id }: { pipeline: string; catalog: string; id: string }) {
  const { data: run, error } = useQuery(pipelineRun(pipeline, id));
  if (run === undefined) return error === null ? <span className="dim">…</span> : <ProblemNote error={error} what="cannot show the run" />;
  const result = resultOf(run);
  return (
    <div className="stack">
      {run.error !== null && <Note tone={run.status === 'failed' ? 'bad' : 'warn'} title="The run ended with an error">{run.error}</Note>}
      <Facts
        columns
        facts={[
          { name: 'table', value: <span className="mono">{run.table}</span> },
          { name: 'state', value: <JobMark status={run.status as JobStatus} /> },
          { name: 'computed', value: result.mode ?? '–', ...(result.reason && run.error === null ? { note: result.reason } : {}) },
          { name: 'affected keys', value: <Count value={result.keys} />, ...addedNote(result) },
          { name: 'rows written', value: <Count value={result.written} /> },
          { name: 'rows left out', value: <Count value={result.unchanged} />, note: 'the table has them already' },
          { name: 'rows deleted', value: <Count value={result.deleted} /> },
          ...(result.absent ? [{ name: 'rows not in the table', value: <Count value={result.absent} />, note: 'others have not brought them' }] : []),
          { name: 'rows dropped', value: <Count value={result.dropped} />, note: 'by validators' },
          ...quarantinesOf(result).map((name) => ({ name: 'quarantine', value: <TableLink catalog={catalog} table={name} />, note: 'has the dropped rows, with run and rules' })),
          { name: 'took', value: <Span seconds={secondsOf(run)} />, ...(run.predicted_seconds == null ? {} : { note: `at most ${span(run.predicted_seconds)} predicted` }) },
          { name: 'last full run took', value: <Span seconds={run.full_seconds} /> },
          ...readBytes(result),
          ...commitFacts(result),
          { name: 'asked for', value: <When at={run.created_at} />, ...(run.requested_by === null ? {} : { note: `by ${run.requested_by}` }) },
          { name: 'job', value: <Link className="mono" to={paths.job(run.job_id)}>{run.job_id}</Link>, note: 'with its log' },
        ]}
      />
      {result.inputs !== undefined && result.inputs.length > 0 && (
        <Panel title="Inputs that had changed">
          <Facts columns facts={result.inputs.map((input) => ({ name: input.table, value: changesText(input) }))} />
        </Panel>
      )}
      {result.validators !== undefined && result.validators.length > 0 && (
        <Panel title="Validators">
          <div className="stack">{result.validators.map((verdict) => <Verdict key={verdict.name} verdict={verdict} />)}</div>
        </Panel>
      )}
    </div>
  );
}

/** Where the rows of a run are. */
function commitFacts({ held, snapshot_id: snapshot, chunks }: RunResult): { name: string; value: ReactNode }[] {
  return [
    ...(held ? [{ name: 'commit', value: 'waited for approval' }] : []),
    ...(snapshot == null ? [] : [{ name: 'snapshot', value: <span className="mono">{snapshot}</span> }]),
    ...(chunks ? [{ name: 'chunks of backfills', value: <Count value={chunks} /> }] : []),
  ];
}

/** What either way was predicted to read, if the run weighed them. */
function readBytes({ incremental_bytes: changed, full_bytes: full }: RunResult): { name: string; value: ReactNode }[] {
  return [
    ...(changed == null ? [] : [{ name: 'incremental reads', value: <>{bytes(changed)} predicted</> }]),
    ...(full == null ? [] : [{ name: 'full reads', value: <>{bytes(full)} predicted</> }]),
  ];
}
