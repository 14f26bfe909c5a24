import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { Link } from 'react-router';

import { jobs, maintenanceStatus } from '../../api/queries';
import { DataTable } from '../../components/data-table';
import { Bytes, Count } from '../../components/figures';
import { jobColumns } from '../../components/job-parts';
import { useSeesServer } from '../../components/current-user';
import { Empty, ProblemNote } from '../../components/notes';
import { Facts, Page, Panel } from '../../components/panel';
import { paths } from '../../lib/paths';
import { perMinute } from '../../lib/queue';
import { Hours } from './hours';
import { NeedsYou } from './needs';
import { Overdue, Queue, Worst } from './lists';
import { Throughput } from './throughput';
import styles from './status.module.css';

/** All background work at a glance: what needs somebody, what waits and runs, what was gained, which tables are worst. */
export function StatusPage() {
  const sees = useSeesServer();
  const { data, error } = useQuery(maintenanceStatus(sees));
  if (!sees) {
    return (
      <Page title="Status">
        <Panel>
          <Empty title="You may not see jobs of all tables">
            That needs the privilege “list” on the server. Jobs of your tables are on their pages and under <Link to={paths.jobs()}>Jobs</Link>.
          </Empty>
        </Panel>
      </Page>
    );
  }
  if (data === undefined) return <Page title="Status">{error && <ProblemNote error={error} />}</Page>;
  const waiting = data.groups.reduce((sum, group) => sum + group.waiting, 0);
  const running = data.groups.reduce((sum, group) => sum + group.running, 0);
  const slots = data.groups.reduce((sum, group) => sum + group.slots, 0);
  return (
    <Page title="Status" sub="Queue, running jobs and results of table maintenance.">
      <NeedsYou work={data} />
      <Panel>
        <Facts
          facts={[
            { name: 'waiting', value: <Count value={waiting} /> },
            { name: 'running', value: <Count value={running} />, note: `of ${slots} slots` },
            { name: 'tables to assess', value: <Count value={data.due_tables} /> },
            { name: 'tables per minute, last hour', value: perMinute(data.last_hour.tables_per_minute) },
            { name: 'freed in the last hour', value: <Bytes value={data.last_hour.bytes_freed || null} /> },
            { name: 'freed in the last day', value: <Bytes value={data.last_day.bytes_freed || null} /> },
            { name: 'rewritten in the last day', value: <Bytes value={data.last_day.bytes_rewritten || null} /> },
          ]}
        />
        <Hours hours={data.hours} />
      </Panel>
      <Queue work={data} />
      <Running />
      <Worst work={data} />
      <Overdue work={data} />
      <Throughput work={data} />
    </Page>
  );
}

function Running() {
  const found = useInfiniteQuery(jobs({ status: ['running', 'committing', 'unknown'] }, 50));
  return (
    <DataTable
      name="running jobs"
      title="Running"
      aside={<Link to={paths.jobs()}>all jobs</Link>}
      columns={jobColumns(true)}
      rows={found.data?.pages.flatMap((page) => page.items)}
      error={found.error}
      id={(job) => job.id}
      link={(job) => paths.job(job.id)}
      more={{ has: found.hasNextPage, loading: found.isFetchingNextPage, load: () => void found.fetchNextPage() }}
      empty={<p className={`dim ${styles.quiet}`}>No running jobs.</p>}
    />
  );
}
