import { useQuery } from '@tanstack/react-query';
import { Link } from 'react-router';
import type { ReactNode } from 'react';

import { migration } from '../api/hive-queries';
import { catalogs } from '../api/queries';
import type { Summary, WorstTable } from '../api/types';
import { DataTable, type Column } from '../components/data-table';
import { Bytes, Count, Span } from '../components/figures';
import { HealthBar } from '../components/health';
import { TableName } from '../components/job-parts';
import { exact, many, percent } from '../lib/format';
import { MIGRATION_STATES } from '../lib/migration';
import { paths } from '../lib/paths';
import { savingsLine } from '../lib/savings';
import { freshnessOf, GRADES, tracePoints, weekly, weeklyHealth, type Part } from '../lib/summary';
import { Parts } from './status/lists';
import styles from './home.module.css';

/** The whole height of the small line of health: a point more or less is no news. */
const HEALTH_POINTS = 20;

interface OfCatalog {
  catalog: string;
  summary: Summary;
}

/** Tables, rows, size, files and health, each with its week. */
export function Totals({ catalog, summary }: OfCatalog) {
  const { now, week_ago: before, trend } = summary;
  const values = (measure: string) => trend.series.find((series) => series.measure === measure)?.values ?? [];
  const health = now?.health === null || now === null ? null : Math.round(now.health);
  return (
    <section aria-label="totals" className={styles.figures}>
      <Figure name="Tables" to={paths.tables(catalog)} value={<Count value={now?.tables} />} note={weekly(now?.tables, before?.tables)} trace={values('tables')} />
      <Figure name="Rows" to={paths.trends(catalog)} value={<Count value={now?.rows} />} note={weekly(now?.rows, before?.rows)} trace={values('rows')} />
      <Figure name="Size" to={paths.trends(catalog)} value={<Bytes value={now?.bytes} />} note={weekly(now?.bytes, before?.bytes)} trace={values('bytes')} />
      <Figure name="Files" to={paths.trends(catalog)} value={<Count value={now?.files} />} note={now === null ? '' : many(now.small_files, 'small file')} trace={values('files')} />
      <Figure name="Average health" to={`${paths.tables(catalog)}?sort=health`} value={health ?? '–'} note={weeklyHealth(now?.health, before?.health)} trace={values('health')} least={HEALTH_POINTS} />
    </section>
  );
}

function Figure({ name, value, note, to, trace, least = 0 }: { name: string; value: ReactNode; note: string; to: string; trace: (number | null)[]; least?: number }) {
  return (
    <div className={styles.figure}>
      <div className={styles.figureName}>
        <Link to={to}>{name}</Link>
      </div>
      <div className={styles.figureLine}>
        <span className={styles.figureValue}>{value}</span>
        <span className="dim">{note}</span>
      </div>
      <Trace values={trace} least={least} />
    </div>
  );
}

/** The week as a small line; the trends page has it in full. */
function Trace({ values, least }: { values: (number | null)[]; least: number }) {
  return (
    <svg viewBox="0 -2 200 28" preserveAspectRatio="none" className={styles.trace} aria-hidden>
      <polyline points={tracePoints(values, 200, 24, least)} fill="none" stroke="var(--firn-accent)" strokeWidth="1.5" vectorEffect="non-scaling-stroke" />
    </svg>
  );
}

/** What jobs saved and cost in a week, in one line; the trends page has the formula. */
export function SavingsLine({ catalog, summary }: OfCatalog) {
  if (summary.week.jobs === 0) return null;
  return (
    <div className="wrap-anywhere dim">
      <Link to={paths.trends(catalog)}>Savings of 7 days</Link>: {savingsLine(summary.trend.savings)}
    </div>
  );
}

/** Freshness, health, jobs and the migration: one small panel each. */
export function Glance({ catalog, summary }: OfCatalog) {
  return (
    <section aria-label="at a glance" className={styles.glance}>
      {summary.freshness !== null && <Shares title="Last write" parts={freshnessOf(summary.freshness)} to={`${paths.tables(catalog)}?sort=last_commit`} />}
      {summary.by_health !== null && (
        <Shares title="Health" parts={GRADES.map(({ key, label }) => ({ key, label, tables: summary.by_health?.[key] ?? 0 }))} to={`${paths.tables(catalog)}?sort=health`} />
      )}
      <Jobs summary={summary} />
      <Migration catalog={catalog} />
    </section>
  );
}

/** Numbers of tables, as a bar and in words. */
function Shares({ title, parts, to }: { title: string; parts: Part[]; to: string }) {
  const total = parts.reduce((sum, part) => sum + part.tables, 0);
  return (
    <div className={styles.figure}>
      <div className={styles.figureName}>
        <Link to={to}>{title}</Link>
      </div>
      <div className={styles.shares} aria-hidden>
        {parts.map((part) => part.tables > 0 && <span key={part.key} data-part={part.key} style={{ width: `${percent(part.tables, total)}%` }} />)}
      </div>
      <ul className={styles.legend}>
        {parts.map((part) => (
          <li key={part.key}>
            <span className={styles.mark} data-part={part.key} aria-hidden />
            <span className="grow">{part.label}</span>
            <span className={styles.number} title={exact(part.tables)}>
              <Count value={part.tables} />
            </span>
          </li>
        ))}
      </ul>
    </div>
  );
}

/** What jobs did, today and in a week. */
function Jobs({ summary: { day, week } }: { summary: Summary }) {
  const rows: [string, ReactNode, ReactNode][] = [
    ['jobs ended', <Count key="d" value={day.jobs} />, <Count key="w" value={week.jobs} />],
    ['failed', <Count key="d" value={day.failed_jobs} />, <Count key="w" value={week.failed_jobs} />],
    ['their time', <Span key="d" seconds={day.job_seconds} />, <Span key="w" seconds={week.job_seconds} />],
    ['files removed', <Count key="d" value={day.files_removed} />, <Count key="w" value={week.files_removed} />],
    ['storage freed', <Bytes key="d" value={day.bytes_freed} />, <Bytes key="w" value={week.bytes_freed} />],
  ];
  return (
    <div className={styles.figure}>
      <table className={styles.jobs}>
        <thead>
          <tr>
            <th scope="col" className={styles.figureName}><Link to={`${paths.jobs()}?show=history`}>Jobs</Link></th>
            <th scope="col">24 h</th>
            <th scope="col">7 days</th>
          </tr>
        </thead>
        <tbody>
          {rows.map(([name, today, lately]) => (
            <tr key={name}>
              <th scope="row">{name}</th>
              <td>{today}</td>
              <td>{lately}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** How far the migration of the catalog's metastore is; nothing without one. */
function Migration({ catalog }: { catalog: string }) {
  const { data: known } = useQuery(catalogs());
  const hasMetastore = known?.some((item) => item.name === catalog && item.metastore !== null) === true;
  const { data } = useQuery({ ...migration(catalog, {}), enabled: hasMetastore });
  if (!hasMetastore || data === undefined || data.tables === 0) return null;
  const parts = MIGRATION_STATES.map(({ state, label }) => ({
    key: state,
    label: label.toLowerCase(),
    tables: data.states.find((count) => count.state === state)?.tables ?? 0,
  }));
  return <Shares title="Migration from Hive" parts={parts} to={paths.migration(catalog)} />;
}

const WORST: Column<WorstTable>[] = [
  { key: 'table', title: 'Table', cell: (row) => <TableName table={row.table} /> },
  { key: 'health', title: 'Health', cell: (row) => <HealthBar score={row.health} label={`health of ${row.table}`} /> },
  { key: 'parts', title: 'Points lost', cell: (row) => <Parts parts={row.parts} /> },
  { key: 'why', title: 'Next job', cell: (row) => <div className="wrap-anywhere" style={{ minWidth: 200 }}>{row.reason}</div>, wide: true },
];

/** The tables that an optimizer would help most; nothing while all are healthy. */
export function WorstTables({ catalog, worst }: { catalog: string; worst: WorstTable[] }) {
  if (worst.length === 0) return null;
  return (
    <DataTable
      name="least healthy tables"
      title="Least healthy tables"
      aside={<Link to={`${paths.tables(catalog)}?sort=health`}>all by health</Link>}
      columns={WORST}
      rows={worst}
      id={(row) => row.table}
      link={(row) => paths.table(catalog, row.table)}
      empty={null}
    />
  );
}
