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
type Standing = Status['worst'][number];
type Late = Status['overdue'][number];

function queueColumns(work: Status): Column<GroupLoad>[] {
  return [
    { key: 'name', title: 'Group', cell: (one) => <span className="mono">{one.name}</span> },
    { key: 'slots', title: 'Slots in use', cell: (one) => <Load used={one.running} of={one.slots} label={`slots of group ${one.name}`} /> },
    { key: 'waiting', title: 'Waiting', cell: (one) => <Count value={one.waiting} />, right: true },
    { key: 'oldest', title: 'Oldest waiting', cell: (one) => <Span seconds={one.oldest_seconds} />, right: true },
    { key: 'kinds', title: 'For', cell: (one) => <Kinds work={work} group={one.name} />, wide: true },
  ];
}

/** What waits in a group, by kind. */
function Kinds({ work, group }: { work: Status; group: string }) {
  const jobs = new Map<string, number>();
  for (const one of work.queue) if (one.group === group) jobs.set(one.kind, (jobs.get(one.kind) ?? 0) + one.jobs);
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
      id={(one) => one.name}
      link={(one) => `${paths.jobs()}?show=queue&group=${encodeURIComponent(one.name)}`}
      empty={null}
    />
  );
}

const WORST: Column<Standing>[] = [
  { key: 'table', title: 'Table', cell: (one) => <TableName table={one.table} /> },
  { key: 'health', title: 'Health', cell: (one) => <HealthBar score={one.health} label={`health of ${one.table}`} /> },
  { key: 'parts', title: 'Points lost', cell: (one) => <Parts parts={one.parts} /> },
  { key: 'why', title: 'What comes next', cell: (one) => <div className="wrap-anywhere" style={{ minWidth: 200 }}>{one.reason}</div>, wide: true },
  { key: 'catalog', title: 'Catalog', cell: (one) => <span className="mono">{one.catalog}</span>, extra: true },
  { key: 'looked', title: 'Assessed', cell: (one) => <When at={one.looked_at} />, right: true },
];

/** The parts that take points, the largest loss first. */
function Parts({ parts }: { parts: Record<string, number> }) {
  const lost = Object.entries(parts)
    .filter(([, points]) => points > 0)
    .sort(([, one], [, other]) => other - one);
  if (lost.length === 0) return <span className="dim">none</span>;
  return (
    <span className={styles.parts}>
      {lost.map(([part, points]) => (
        <span key={part} className={styles.part} title={many(Number(points.toFixed(1)), 'point')}>
          {words(part)} <b>−{Number(points.toFixed(1))}</b>
        </span>
      ))}
    </span>
  );
}

export function Worst({ work }: { work: Status }) {
  const ill = work.worst.filter((one) => one.health < 100);
  return (
    <DataTable
      name="worst tables"
      title="Least healthy tables"
      columns={WORST}
      rows={ill}
      id={(one) => `${one.catalog}.${one.table}`}
      link={(one) => paths.table(one.catalog, one.table)}
      empty={<p className={`dim ${styles.quiet}`}>All tables are healthy.</p>}
    />
  );
}

const OVERDUE: Column<Late>[] = [
  { key: 'kind', title: 'Job', cell: (one) => <span style={{ fontWeight: 500 }}>{one.kind}</span> },
  { key: 'table', title: 'Table', cell: (one) => <TableLink catalog={one.catalog} table={one.table} />, wide: true },
  { key: 'group', title: 'Group', cell: (one) => <span className="mono">{one.group}</span> },
  { key: 'late', title: 'Overdue by', cell: (one) => <Span seconds={one.overdue_seconds} />, right: true },
  { key: 'planned', title: 'Planned', cell: (one) => <When at={one.created_at} />, right: true },
];

/** Jobs that should have begun; nothing is shown while there are none. */
export function Overdue({ work }: { work: Status }) {
  if (work.overdue.length === 0) return null;
  return <DataTable name="overdue jobs" title="Overdue" columns={OVERDUE} rows={work.overdue} id={(one) => one.id} link={(one) => paths.job(one.id)} empty={null} />;
}
