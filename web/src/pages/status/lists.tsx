import { Link } from 'react-router';

import type { Status } from '../../api/types';
import { Load } from '../../components/bar';
import { DataTable, type Column } from '../../components/data-table';
import { Count, Span, When } from '../../components/figures';
import { HealthBar } from '../../components/health';
import { TableLink, TableName } from '../../components/job-parts';
import { many, words } from '../../lib/format';
import { paths } from '../../lib/paths';
import styles from './status.module.css';

type GroupLoad = Status['groups'][number];
type TableStatus = Status['worst'][number];
type Late = Status['overdue'][number];

function queueColumns(work: Status): Column<GroupLoad>[] {
  return [
    { key: 'name', title: 'Group', cell: (row) => <span className="mono">{row.name}</span> },
    { key: 'slots', title: 'Slots in use', cell: (row) => <Load used={row.running} of={row.slots} label={`slots of group ${row.name}`} /> },
    { key: 'waiting', title: 'Waiting', cell: (row) => <Count value={row.waiting} />, right: true },
    { key: 'oldest', title: 'Oldest waiting', cell: (row) => <Span seconds={row.oldest_seconds} />, right: true },
    { key: 'kinds', title: 'Waiting kinds', cell: (row) => <Kinds work={work} group={row.name} />, wide: true },
  ];
}

/** What waits in a group, by kind. */
function Kinds({ work, group }: { work: Status; group: string }) {
  const jobs = new Map<string, number>();
  for (const queued of work.queue) if (queued.group === group) jobs.set(queued.kind, (jobs.get(queued.kind) ?? 0) + queued.jobs);
  if (jobs.size === 0) return <span className="dim">–</span>;
  return <span className="dim">{[...jobs].map(([kind, count]) => `${count} ${kind}`).join(', ')}</span>;
}

export function Queue({ work }: { work: Status }) {
  return (
    <DataTable
      name="queue"
      title="Queue"
      aside={<Link to={`${paths.jobs()}?show=queue`}>queued jobs</Link>}
      columns={queueColumns(work)}
      rows={work.groups}
      id={(row) => row.name}
      link={(row) => `${paths.jobs()}?show=queue&group=${encodeURIComponent(row.name)}`}
      empty={null}
    />
  );
}

const WORST: Column<TableStatus>[] = [
  { key: 'table', title: 'Table', cell: (row) => <TableName table={row.table} /> },
  { key: 'health', title: 'Health', cell: (row) => <HealthBar score={row.health} label={`health of ${row.table}`} /> },
  { key: 'parts', title: 'Points lost', cell: (row) => <Parts parts={row.parts} /> },
  { key: 'why', title: 'Next job', cell: (row) => <div className="wrap-anywhere" style={{ minWidth: 200 }}>{row.reason}</div>, wide: true },
  { key: 'catalog', title: 'Catalog', cell: (row) => <span className="mono">{row.catalog}</span>, extra: true },
  { key: 'looked', title: 'Assessed', cell: (row) => <When at={row.looked_at} />, right: true },
];

/** The parts that take points, the largest loss first. */
export function Parts({ parts }: { parts: Record<string, number> }) {
  const lost = Object.entries(parts)
    .map(([part, points]) => [part, Number(points.toFixed(1))] as const)
    .filter(([, points]) => points > 0)
    .sort(([, queued], [, other]) => other - queued);
  if (lost.length === 0) return <span className="dim">none</span>;
  return (
    <span className={styles.parts}>
      {lost.map(([part, points]) => (
        <span key={part} className={styles.part} title={many(points, 'point')}>
          {words(part)} <b>−{points}</b>
        </span>
      ))}
    </span>
  );
}

export function Worst({ work }: { work: Status }) {
  const ill = work.worst.filter((item) => item.health < 100);
  return (
    <DataTable
      name="worst tables"
      title="Least healthy tables"
      columns={WORST}
      rows={ill}
      id={(row) => `${row.catalog}.${row.table}`}
      link={(row) => paths.table(row.catalog, row.table)}
      empty={<p className={`dim ${styles.quiet}`}>All tables are healthy.</p>}
    />
  );
}

const OVERDUE: Column<Late>[] = [
  { key: 'kind', title: 'Job', cell: (row) => <span style={{ fontWeight: 500 }}>{row.kind}</span> },
  { key: 'table', title: 'Table', cell: (row) => <TableLink catalog={row.catalog} table={row.table} />, wide: true },
  { key: 'group', title: 'Group', cell: (row) => <span className="mono">{row.group}</span> },
  { key: 'late', title: 'Overdue by', cell: (row) => <Span seconds={row.overdue_seconds} />, right: true },
  { key: 'planned', title: 'Planned', cell: (row) => <When at={row.created_at} />, right: true },
];

/** Jobs that should have begun; nothing is shown while there are none. */
export function Overdue({ work }: { work: Status }) {
  if (work.overdue.length === 0) return null;
  return <DataTable name="overdue jobs" title="Overdue" columns={OVERDUE} rows={work.overdue} id={(row) => row.id} link={(row) => paths.job(row.id)} empty={null} />;
}
