import { Select } from '@mantine/core';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';

import { catalogs, jobs } from '../api/queries';
import type { JobKind, JobStatus } from '../api/types';
import { DataTable } from '../components/data-table';
import { jobColumns } from '../components/job-parts';
import { useOptimizers, usePulse } from '../components/me';
import { Empty, Note } from '../components/notes';
import { Page } from '../components/panel';
import { Choice } from '../components/choice';
import { many } from '../lib/format';
import { paths } from '../lib/paths';
import { useUrlState } from '../lib/url-state';

const QUEUE: JobStatus[] = ['pending', 'running', 'committing', 'unknown'];
const HISTORY: JobStatus[] = ['succeeded', 'failed', 'canceled'];
const KINDS: JobKind[] = ['merge', 'rewrite', 'clean', 'expire', 'sync'];
const SHOWS = [
  { value: 'all', label: 'All' },
  { value: 'queue', label: 'Queue and running' },
  { value: 'history', label: 'History' },
  { value: 'failed', label: 'Failed' },
];
const STATUSES: Record<string, JobStatus[]> = { queue: QUEUE, history: HISTORY, failed: ['failed', 'unknown'] };

/** All jobs of the server: what waits, what runs, what was. */
export function JobsPage() {
  const [get, set] = useUrlState();
  const show = get('show') ?? 'all';
  const kind = get('kind');
  const catalog = get('catalog');
  const found = useInfiniteQuery(
    jobs({
      ...(catalog === undefined ? {} : { catalog }),
      ...(kind === undefined ? {} : { kind: [kind as JobKind] }),
      ...(STATUSES[show] === undefined ? {} : { status: STATUSES[show] }),
    }),
  );
  const all = useQuery(catalogs());
  return (
    <Page title="Jobs" sub="Merge, rewrite, clean and expire: planned by the server, run by optimizers.">
      <WhyNothingRuns />
      <div className="row row-wrap">
        <Choice label="which jobs" value={show} set={(value) => set({ show: value === 'all' ? undefined : value })} options={SHOWS} />
        <Select
          aria-label="kind"
          w={130}
          value={kind ?? ''}
          onChange={(value) => set({ kind: value ?? undefined })}
          data={[{ value: '', label: 'Every kind' }, ...KINDS.map((one) => ({ value: one, label: one }))]}
        />
        {(all.data?.length ?? 0) > 1 && (
          <Select
            aria-label="catalog"
            w={150}
            value={catalog ?? ''}
            onChange={(value) => set({ catalog: value ?? undefined })}
            data={[{ value: '', label: 'Every catalog' }, ...(all.data ?? []).map((one) => ({ value: one.name, label: one.name }))]}
          />
        )}
      </div>
      <DataTable
        name="jobs"
        columns={jobColumns(true)}
        rows={found.data?.pages.flatMap((page) => page.items)}
        error={found.error}
        id={(job) => job.id}
        link={(job) => paths.job(job.id)}
        more={{ has: found.hasNextPage, loading: found.isFetchingNextPage, load: () => void found.fetchNextPage() }}
        empty={
          <Empty title={show === 'all' && kind === undefined ? 'No job has been planned yet' : 'No job is like that'}>
            Jobs are planned when a table has enough pending changes, small files or old snapshots; each table's page says what is
            due next and why, and can ask for a job at once.
          </Empty>
        }
      />
    </Page>
  );
}

/** One sentence for the most asked question. */
function WhyNothingRuns() {
  const { data: beat } = usePulse();
  const { data: workers } = useOptimizers();
  if (beat === undefined || workers === undefined) return null;
  const pending = beat.counts.pending ?? 0;
  const running = (beat.counts.running ?? 0) + (beat.counts.committing ?? 0);
  if (running > 0) return null;
  if (pending === 0) {
    return <Note title="Nothing runs because nothing is due.">Each table's page says what its next job will be, when and why.</Note>;
  }
  if (workers.length === 0) {
    return (
      <Note tone="bad" title={`${many(pending, 'job')} wait${pending === 1 ? 's' : ''} because no optimizer runs`}>
        Start one with <span className="mono">firn optimizer</span>.
      </Note>
    );
  }
  const groups = [...new Set(workers.map((one) => one.group))].join(', ');
  return (
    <Note title={`${many(pending, 'job')} will be taken in a moment`}>
      {many(workers.length, 'optimizer')} of group {groups} ask for work. A job whose policy names another group waits for an
      optimizer of that group.
    </Note>
  );
}
