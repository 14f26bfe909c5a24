import { Select, TextInput } from '@mantine/core';
import { useDebouncedCallback } from '@mantine/hooks';
import { IconSearch } from '@tabler/icons-react';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';

import { catalogs, jobs, maintenanceStatus } from '../api/queries';
import { ACTIVE, type JobKind, type JobStatus } from '../api/types';
import { DataTable } from '../components/data-table';
import { jobColumns } from '../components/job-parts';
import { useSeesServer } from '../components/current-user';
import { Empty, Note } from '../components/notes';
import { Page } from '../components/panel';
import { Choice } from '../components/choice';
import { JOB_KINDS } from '../lib/job-kinds';
import { paths } from '../lib/paths';
import { whyNothingRuns } from '../lib/queue';
import { useUrlState } from '../lib/url-state';

const HISTORY: JobStatus[] = ['succeeded', 'failed', 'canceled'];
const SHOWS = [
  { value: 'all', label: 'All' },
  { value: 'queue', label: 'Queue and running' },
  { value: 'history', label: 'History' },
  { value: 'failed', label: 'Failed' },
];
const STATUSES: Record<string, JobStatus[]> = { queue: ACTIVE, history: HISTORY, failed: ['failed', 'unknown'] };

/** All jobs of the server: what waits, what runs, what was. */
export function JobsPage() {
  const [get, set] = useUrlState();
  const show = get('show') ?? 'all';
  const kind = get('kind');
  const catalog = get('catalog');
  const group = get('group');
  const search = get('search');
  const find = useDebouncedCallback((text: string) => set({ search: text.trim() || undefined }), 250);
  const { data: work } = useQuery(maintenanceStatus(useSeesServer()));
  const found = useInfiniteQuery(
    jobs({
      ...(catalog === undefined ? {} : { catalog }),
      ...(group === undefined ? {} : { group }),
      ...(search === undefined ? {} : { search }),
      ...(kind === undefined ? {} : { kind: [kind as JobKind] }),
      ...(STATUSES[show] === undefined ? {} : { status: STATUSES[show] }),
    }),
  );
  const all = useQuery(catalogs());
  return (
    <Page title="Jobs" sub="Planned by the server or requested by users; run by optimizers.">
      <WhyNothingRuns />
      <div className="row row-wrap">
        <Choice label="which jobs" value={show} set={(value) => set({ show: value === 'all' ? undefined : value })} options={SHOWS} />
        <TextInput
          aria-label="search by table"
          placeholder="Part of a table's name"
          leftSection={<IconSearch size={14} />}
          defaultValue={search ?? ''}
          onChange={(event) => find(event.currentTarget.value)}
          w={220}
        />
        <Select
          aria-label="kind"
          w={130}
          value={kind ?? ''}
          onChange={(value) => set({ kind: value ?? undefined })}
          data={[{ value: '', label: 'Every kind' }, ...JOB_KINDS.map((item) => ({ value: item, label: item }))]}
        />
        {(group !== undefined || (work?.groups.length ?? 0) > 1) && (
          <Select
            aria-label="group"
            w={150}
            value={group ?? ''}
            onChange={(value) => set({ group: value ?? undefined })}
            data={[{ value: '', label: 'Every group' }, ...[...new Set([...(work?.groups.map(({ name }) => name) ?? []), ...(group === undefined ? [] : [group])])]]}
          />
        )}
        {(all.data?.length ?? 0) > 1 && (
          <Select
            aria-label="catalog"
            w={150}
            value={catalog ?? ''}
            onChange={(value) => set({ catalog: value ?? undefined })}
            data={[{ value: '', label: 'Every catalog' }, ...(all.data ?? []).map((item) => ({ value: item.name, label: item.name }))]}
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
          <Empty title={show === 'all' && kind === undefined && group === undefined && catalog === undefined && search === undefined ? 'No job has been planned yet' : 'No matching jobs'}>
            Jobs are planned when a table has enough pending changes, small files or old snapshots; each table's page says what is
            due next and why, and can ask for a job at once.
          </Empty>
        }
      />
    </Page>
  );
}

/** One sentence for the most asked question, for each group that has something to say. */
function WhyNothingRuns() {
  const { data } = useQuery(maintenanceStatus(useSeesServer()));
  if (data === undefined) return null;
  return whyNothingRuns(data.groups).map(({ key, tone, title, text }) => (
    <Note key={key} tone={tone} title={title}>
      {text}
    </Note>
  ));
}
