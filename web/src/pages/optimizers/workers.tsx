import { Link } from 'react-router';

import type { Optimizer } from '../../api/types';
import { Load } from '../../components/bar';
import { DataTable, type Column } from '../../components/data-table';
import { Bytes, When } from '../../components/figures';
import { HEALTHY, Mark, NEVER_RAN, WARNING } from '../../components/status-icons';
import { Empty } from '../../components/notes';
import { bytes } from '../../lib/format';
import { paths } from '../../lib/paths';
import { WorkerActions } from './worker-actions';

const COLUMNS: Column<Optimizer>[] = [
  { key: 'host', title: 'Host', cell: (row) => <span className="mono">{`${row.host}:${row.pid}`}</span> },
  { key: 'state', title: 'State', cell: (row) => <State optimizer={row} />, wide: true },
  { key: 'group', title: 'Group', cell: (row) => <span className="mono">{row.group}</span> },
  { key: 'load', title: 'Slots in use', cell: (row) => <Load used={row.jobs.length} of={row.slots} label={`slots of ${row.host}:${row.pid}`} /> },
  { key: 'heap', title: 'Heap', cell: (row) => <Heap memory={row.memory} />, help: "of its JVM; the process's own memory on hover" },
  { key: 'rss', title: 'Process', cell: (row) => <Bytes value={row.memory.rss} />, right: true, extra: true, help: 'memory of the process as the system counts it' },
  { key: 'spark', title: 'Spark', cell: (row) => <Fact optimizer={row} names={['spark_version', 'spark']} /> },
  { key: 'master', title: 'Master', cell: (row) => <Fact optimizer={row} names={['master']} /> },
  { key: 'version', title: 'Firn', cell: (row) => <span className="mono">{row.version}</span>, extra: true },
  { key: 'launch', title: 'Launch', cell: (row) => <span className="mono dim">{row.launch ?? 'by hand'}</span>, extra: true },
  { key: 'id', title: 'Id', cell: (row) => <span className="mono dim">{row.id}</span>, extra: true },
  { key: 'since', title: 'Since', cell: (row) => <When at={row.registered_at} />, right: true },
  { key: 'seen', title: 'Last heard', cell: (row) => <When at={row.last_seen_at} />, right: true },
  { key: 'act', title: '', cell: (row) => <WorkerActions optimizer={row} />, right: true },
];

/** The processes: what each runs, how full it is, and how to make it go. */
export function Workers({ workers, error }: { workers: Optimizer[] | undefined; error: unknown }) {
  return (
    <DataTable
      name="optimizers"
      title="Optimizers"
      columns={COLUMNS}
      rows={workers}
      error={error}
      id={(row) => row.id}
      empty={<Empty title="No optimizers are running">Tables stay readable and writable; merges and rewrites wait for an optimizer. Start one as shown below.</Empty>}
    />
  );
}

function State({ optimizer }: { optimizer: Optimizer }) {
  const { silent, stopping, draining, reason, jobs, streams, queries } = optimizer;
  if (silent) return <Mark look={{ ...WARNING, says: 'silent: its jobs are back in the queue' }} />;
  if (draining) {
    const says = stopping ? 'exits after its jobs' : 'takes no more jobs';
    return (
      <Mark look={{ ...NEVER_RAN, says }}>
        <span className="wrap-anywhere">
          {says}
          {reason !== null && `: ${reason}`}
        </span>
      </Mark>
    );
  }
  if (jobs.length === 0 && streams === 0 && queries === 0) return <Mark look={{ ...HEALTHY, says: 'idle' }} />;
  return (
    <Mark look={{ ...HEALTHY, says: 'busy' }}>
      <span>
        runs{' '}
        {jobs.map((job, index) => (
          <span key={job}>
            {index > 0 && ', '}
            <Link className="inline mono" to={paths.job(job)}>
              {job.slice(0, 8)}
            </Link>
          </span>
        ))}
        {streams > 0 && (
          <>
            {jobs.length > 0 && ', '}
            <Link className="inline" to={paths.streams()}>
              {streams === 1 ? '1 stream' : `${streams} streams`}
            </Link>
          </>
        )}
        {queries > 0 && `${jobs.length + streams > 0 ? ', ' : ''}${queries === 1 ? '1 query' : `${queries} queries`}`}
      </span>
    </Mark>
  );
}

function Heap({ memory }: { memory: Record<string, number> }) {
  const { heap_used: used, heap_max: most, rss } = memory;
  if (used === undefined || most === undefined) return <span className="dim">–</span>;
  return (
    <span title={rss === undefined ? undefined : `${bytes(rss)} in all as the system counts it`}>
      <Load used={used} of={most} label="heap" text={`${bytes(used)} of ${bytes(most)}`} />
    </span>
  );
}

function Fact({ optimizer, names }: { optimizer: Optimizer; names: string[] }) {
  const value = names.map((name) => optimizer.facts[name]).find((item) => item !== undefined && item !== null);
  if (typeof value !== 'string' && typeof value !== 'number') return <span className="dim">–</span>;
  return <span className="mono">{value}</span>;
}
