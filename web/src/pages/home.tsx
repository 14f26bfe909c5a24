import { Button } from '@mantine/core';
import { IconCircleCheckFilled } from '@tabler/icons-react';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { Link } from 'react-router';
import type { ReactNode } from 'react';

import { hiveTables } from '../api/hive-queries';
import { catalogs, events, jobs, operations } from '../api/queries';
import { summary } from '../api/trend-queries';
import type { MetastoreDown, Health, HiveRow, Job, Operation, Summary } from '../api/types';
import { useCatalog } from '../components/catalog';
import { DataTable, type Column } from '../components/data-table';
import { YourTables } from '../components/favourites';
import { Bytes, useNow, When } from '../components/figures';
import { jobColumns, TableName } from '../components/job-parts';
import { useOptimizers, usePulse, useSeesServer } from '../components/current-user';
import { Empty, Note, ProblemNote } from '../components/notes';
import { Page } from '../components/panel';
import { groupCommits, type Activity } from '../lib/commits';
import { engineText, many, secondsBetween } from '../lib/format';
import { paths } from '../lib/paths';
import { taskTitle } from '../lib/tasks';
import { Clusters } from './clusters';
import { Glance, SavingsLine, Totals, WorstTables } from './home-summary';
import styles from './home.module.css';
import { RunningOperations } from './operations';

const DAY_SECONDS = 86_400;

/** Is everything all right, what needs somebody, how is the catalog; then what happens by itself. */
export function HomePage() {
  const { name: catalog } = useCatalog();
  const needs = useNeeds(catalog);
  const { data: found, error } = useQuery(summary(catalog));
  return (
    <Page title="Home" sub={<Verdict needs={needs} summary={found} />}>
      {error !== null && <ProblemNote error={error} what="cannot read the totals" />}
      <NeedsYou needs={needs} />
      <YourTables catalog={catalog} />
      {found !== undefined && <Totals catalog={catalog} summary={found} />}
      {found !== undefined && <Glance catalog={catalog} summary={found} />}
      {found !== undefined && <SavingsLine catalog={catalog} summary={found} />}
      <RunningOperations catalog={catalog} />
      {found !== undefined && <WorstTables catalog={catalog} worst={found.worst} />}
      <Queue catalog={catalog} />
      <Recent catalog={catalog} />
      <Clusters catalog={catalog} />
    </Page>
  );
}

/** One sentence, before anything else. */
function Verdict({ needs, summary: found }: { needs: Need[] | undefined; summary: Summary | undefined }) {
  if (needs === undefined) return <span className="dim">…</span>;
  const health = found?.now?.health ?? null;
  const average = health === null ? '' : `; the average health is ${Math.round(health)} of 100`;
  if (needs.length === 0) return <span><IconCircleCheckFilled size={15} aria-hidden className={styles.allRight} /> Everything is all right{average}.</span>;
  return <span>{many(needs.length, 'thing needs', 'things need')} you{average}.</span>;
}

interface Need {
  key: string;
  title: ReactNode;
  text: ReactNode;
  action: ReactNode;
  tone: 'warn' | 'bad';
}

function NeedsYou({ needs }: { needs: Need[] | undefined }) {
  if (needs === undefined || needs.length === 0) return null;
  return (
    <section className="stack" style={{ gap: 8 }} aria-label="what needs you">
      {needs.map((need) => (
        <Note key={need.key} tone={need.tone} title={need.title} action={need.action}>
          {need.text}
        </Note>
      ))}
    </section>
  );
}

function useNeeds(catalog: string): Need[] | undefined {
  const failed = useInfiniteQuery(jobs({ catalog, status: ['failed', 'unknown'] }, 20));
  const newest = useInfiniteQuery(jobs({ catalog }, 100));
  const drifted = useInfiniteQuery(hiveTables(catalog, { out_of_sync: true }, 'name', 20));
  const { data: beat } = usePulse();
  const { data: workers } = useOptimizers();
  const { data: works } = useQuery(operations(catalog));
  const { data: known } = useQuery(catalogs());
  const seesServer = useSeesServer();
  const now = useNow();
  if (failed.data === undefined || beat === undefined || known === undefined || (seesServer && workers === undefined)) return undefined;
  const all = newest.data?.pages.flatMap((page) => page.items) ?? [];
  const left = failed.data.pages.flatMap((page) => page.items).filter((job) => isOpen(job, all, now));
  const waiting = beat.counts.pending ?? 0;
  const away = known.find((item) => item.name === catalog)?.metastore_down ?? null;
  return [
    ...(away === null ? [] : [metastoreDown(catalog, away)]),
    ...(waiting > 0 && workers?.length === 0 ? [noOptimizer(waiting)] : []),
    ...left.slice(0, 5).map(failedJob),
    ...(works?.items ?? []).filter((item) => isFailedUpgrade(item, works?.items ?? [], now)).map(failedOperation),
    ...(drifted.data?.pages[0]?.items ?? []).map((row) => driftedTable(catalog, row)),
    ...(beat.health === null ? [] : brokenTasks(beat.health)),
  ];
}

/** A failure is done with when a later job of its kind on its table has succeeded, or after a day. */
function isOpen(job: Job, all: Job[], now: number): boolean {
  if (job.status === 'unknown') return true;
  const ended = job.ended_at ?? job.created_at;
  if (secondsBetween(ended, now) > DAY_SECONDS) return false;
  const later = all.filter((item) => item.table === job.table && item.kind === job.kind && item.created_at > job.created_at);
  return !later.some((item) => item.status === 'succeeded' || item.status === 'failed');
}

function isFailedUpgrade(operation: Operation, all: Operation[], now: number): boolean {
  if (operation.status !== 'failed' || operation.outcome === 'blocked' || secondsBetween(operation.updated_at, now) > DAY_SECONDS) return false;
  return !all.some((other) => other.target === operation.target && other.created_at > operation.created_at);
}

function noOptimizer(waiting: number): Need {
  return {
    key: 'no-optimizer',
    tone: 'bad',
    title: `${many(waiting, 'job')} ${waiting === 1 ? 'waits' : 'wait'} with no optimizer`,
    text: (
      <>
        Start one with <span className="mono">firn optimizer</span>; it needs Java and may run on any machine that reaches this server.
      </>
    ),
    action: <Open to={paths.optimizers()} label="How to start one" />,
  };
}

function metastoreDown(catalog: string, away: MetastoreDown): Need {
  return {
    key: 'metastore-away',
    tone: 'bad',
    title: (
      <>
        The Hive Metastore stopped answering <When at={away.since} />
      </>
    ),
    text: `${away.reason}. Until it answers, Firn neither syncs from Hive nor publishes to it.`,
    action: <Open to={paths.hive(catalog)} label="View" />,
  };
}

function failedJob(job: Job): Need {
  return {
    key: job.id,
    tone: job.status === 'unknown' ? 'warn' : 'bad',
    title: (
      <>
        {job.kind} of <span className="mono">{job.table}</span> {job.status === 'unknown' ? 'has an unknown outcome, since' : 'failed'} <When at={job.ended_at ?? job.created_at} />
      </>
    ),
    text: job.error ?? 'The server checks its commit record and settles the outcome.',
    action: <Open to={paths.job(job.id)} label="View" />,
  };
}

function failedOperation(operation: Operation): Need {
  return {
    key: operation.id,
    tone: 'bad',
    title: (
      <>
        {operation.kind} of <span className="mono">{operation.target}</span> failed <When at={operation.ended_at ?? operation.updated_at} />
      </>
    ),
    text: [operation.error, operation.hint].filter(Boolean).join(' – '),
    action: <Open to={paths.upgrade(operation.catalog, operation.target, operation.id)} label="View" />,
  };
}

function driftedTable(catalog: string, row: HiveRow): Need {
  const [hive, table] = [`${row.database}.${row.name}`, row.upgraded_to];
  return {
    key: `drift-${hive}`,
    tone: 'warn',
    title: (
      <>
        <span className="mono">{hive}</span> in Hive and its upgraded table are out of sync
      </>
    ),
    text: (
      <>
        {row.drift}{' '}
        <span className="dim">
          First seen <When at={row.drift_since} />
          {row.likely_author === null ? '' : `; ${row.likely_author}`}.
        </span>
      </>
    ),
    action: <Open to={table === null ? paths.hive(catalog) : paths.table(catalog, table)} label="View" />,
  };
}

const TASK_FAILURES: Record<string, string> = {
  check_hadoop: 'An HDFS cluster has stopped answering',
  renew_ticket: 'The server cannot renew its Kerberos ticket',
};

function brokenTasks(health: Health): Need[] {
  return health.tasks
    .filter((task) => task.error !== null)
    .map((task) => ({
      key: `task-${task.name}`,
      tone: 'bad' as const,
      title: TASK_FAILURES[task.name] ?? `The server's background task “${taskTitle(task.name)}” fails`,
      text: task.error,
      action: <Open to={paths.settings()} label="View" />,
    }));
}

function Open({ to, label }: { to: string; label: string }) {
  return (
    <Button component={Link} to={to} variant="default">
      {label}
    </Button>
  );
}

function Queue({ catalog }: { catalog: string }) {
  const { data, error } = useInfiniteQuery(jobs({ catalog, status: ['pending', 'running', 'committing', 'unknown'] }, 20));
  const rows = data?.pages.flatMap((page) => page.items);
  return (
    <DataTable
      name="queue"
      title="Queue"
      aside={<Link to={paths.jobs()}>all jobs</Link>}
      columns={jobColumns(true)}
      rows={rows}
      error={error}
      id={(job) => job.id}
      link={(job) => paths.job(job.id)}
      empty={<div className={`dim ${styles.quiet}`}>No jobs are queued. Each table’s page shows its next job.</div>}
    />
  );
}

const RECENT: Column<Activity>[] = [
  { key: 'table', title: 'Table', cell: (row) => <TableName table={row.table} /> },
  { key: 'what', title: 'What happened', cell: (row) => <span className="wrap-anywhere">{row.text}</span>, wide: true },
  { key: 'bytes', title: 'Written', cell: (row) => <Bytes value={row.bytes || null} />, right: true },
  { key: 'engine', title: 'By', cell: (row) => <span className="dim">{row.event.job_kind === null ? engineText(row.event.engine ?? row.event.writer_id ?? '–') : `${row.event.job_kind} job`}</span> },
  { key: 'at', title: 'When', cell: (row) => <When at={row.event.committed_at} />, right: true },
];

function Recent({ catalog }: { catalog: string }) {
  const { data, error } = useQuery(events(catalog, 24));
  return (
    <DataTable
      name="recent activity"
      title="Recent activity"
      columns={RECENT}
      rows={data === undefined ? undefined : groupCommits(data.items).slice(0, 12)}
      error={error}
      id={(row) => String(row.event.id)}
      link={(row) => paths.table(catalog, row.table)}
      empty={
        <Empty title={`Nothing has been committed to ${catalog} yet`} action={<Open to={paths.hive(catalog)} label="View Hive tables" />}>
          Upgrade a Hive table in place, create a keyed table, or connect Spark and write.
        </Empty>
      }
    />
  );
}

