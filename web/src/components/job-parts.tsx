import { Link } from 'react-router';

import { LIVE, type Job } from '../api/types';
import { secondsBetween, span } from '../lib/format';
import { paths, split } from '../lib/paths';
import { resultText } from '../lib/result';
import { Bar, paceText } from './bar';
import type { Column } from './data-table';
import { Count, useNow, When } from './figures';
import styles from './components.module.css';
import { JobMark } from './status-icons';

/** A name in a list of many: of a long one the database gives way first; in full on hover. */
export function ListedTable({ table }: { table: string }) {
  const { namespace, name } = split(table);
  return (
    <span className={`mono ${styles.listed}`} title={table}>
      {/* Boxes beside each other are heard as words of their own: a name is one. */}
      <span className="hidden">{table}</span>
      {namespace !== '' && (
        <>
          <span aria-hidden className={`dim truncate ${styles.listedSpace}`} style={{ minWidth: `${Math.min(namespace.length, 6)}ch` }}>
            {namespace}
          </span>
          <span aria-hidden className="dim">
            .
          </span>
        </>
      )}
      <span aria-hidden className="truncate">
        {name}
      </span>
    </span>
  );
}

/** A table's name as a link: the database dim, its own name not. */
export function TableLink({ catalog, table }: { catalog: string; table: string }) {
  return (
    <Link to={paths.table(catalog, table)} className="mono">
      <TableName table={table} />
    </Link>
  );
}

export function TableName({ table }: { table: string }) {
  const { namespace, name } = split(table);
  return (
    <span className="mono">
      {namespace !== '' && <span className="dim">{namespace}.</span>}
      {name}
    </span>
  );
}

interface Progress {
  stage: string;
  done: number;
  total: number;
  unit: string;
}

/** How far a job says it is; every part may be missing. */
export function progressOf(job: Job): Progress {
  const { stage, done, total, unit } = job.progress as Partial<Progress>;
  return { stage: stage ?? '', done: done ?? 0, total: total ?? 0, unit: unit ?? 'tasks' };
}

export function isLive(job: Job): boolean {
  return LIVE.includes(job.status);
}

/** A running job's bar with what it does now. */
export function JobBar({ job, thin = true }: { job: Job; thin?: boolean }) {
  const now = useNow();
  const { stage, done, total, unit } = progressOf(job);
  const elapsed = job.leased_at === null ? 0 : secondsBetween(job.leased_at, now);
  return (
    <div style={{ minWidth: 180 }}>
      <Bar done={done} total={total} label={`${job.kind} ${job.table}`} thin={thin} />
      <div className="dim" style={{ fontSize: 12, marginTop: 3, whiteSpace: 'normal' }}>
        {[stage, total > 0 ? paceText(done, total, unit, elapsed) : span(elapsed)].filter((part) => part !== '').join(' · ')}
      </div>
    </div>
  );
}

/** How long it ran; of one that waits again the last attempt does not go on. */
export function JobTime({ job }: { job: Job }) {
  const now = useNow();
  if (job.leased_at === null || job.status === 'pending') return <span className="dim">–</span>;
  return <>{span(Math.max(0, secondsBetween(job.leased_at, job.ended_at ?? now)))}</>;
}

/** One line about how a job stands: its bar, its error, or what it did. */
function Outcome({ job }: { job: Job }) {
  if (isLive(job)) return <JobBar job={job} />;
  const text = job.error ?? resultText(job.result);
  return (
    <div className={`truncate ${job.status === 'failed' ? '' : 'dim'}`} style={{ maxWidth: 420 }} title={text}>
      {text}
    </div>
  );
}

/** The columns of every list of jobs; a table's own list leaves out the table. */
export function jobColumns(withTable: boolean): Column<Job>[] {
  const own: Column<Job>[] = [
    { key: 'kind', title: 'Job', cell: (job) => <span style={{ fontWeight: 500 }}>{job.kind}</span> },
    { key: 'status', title: 'State', cell: (job) => <JobMark status={job.status} outcome={job.outcome} /> },
    { key: 'outcome', title: 'Progress and outcome', cell: (job) => <Outcome job={job} />, wide: true },
    {
      key: 'reason',
      title: 'Why',
      cell: (job) => (
        <div className="dim truncate" style={{ maxWidth: 300 }} title={job.reason}>
          {job.reason}
        </div>
      ),
    },
    { key: 'group', title: 'Group', cell: (job) => <span className="mono dim">{job.group}</span>, extra: true },
    { key: 'attempt', title: 'Attempt', cell: (job) => <Count value={job.attempt} />, right: true, extra: true },
    { key: 'owner', title: 'Optimizer', cell: (job) => <span className="mono dim">{job.owner ?? '–'}</span>, extra: true },
    { key: 'took', title: 'Took', cell: (job) => <JobTime job={job} />, right: true },
    { key: 'created', title: 'Planned', cell: (job) => <When at={job.created_at} />, right: true },
  ];
  if (!withTable) return own;
  const table: Column<Job> = { key: 'table', title: 'Table', cell: (job) => <TableLink catalog={job.catalog} table={job.table} /> };
  return [...own.slice(0, 2), table, ...own.slice(2)];
}
