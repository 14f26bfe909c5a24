import { Button } from '@mantine/core';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import { Link } from 'react-router';
import type { ReactNode } from 'react';

import { hiveTables } from '../api/hive-queries';
import { catalogs, events, jobs, operations } from '../api/queries';
import type { MetastoreDown, CommitEvent, Health, HiveRow, Job, Operation } from '../api/types';
import { useCatalog } from '../components/catalog';
import { DataTable, type Column } from '../components/data-table';
import { Bytes, Count, useNow, When } from '../components/figures';
import { jobColumns } from '../components/job-parts';
import { useOptimizers, usePulse, useSeesServer } from '../components/current-user';
import { Empty, Note } from '../components/notes';
import { Page } from '../components/panel';
import { describeCommit, ownerOf } from '../lib/commits';
import { engineText, many, secondsBetween } from '../lib/format';
import { paths } from '../lib/paths';
import { taskTitle } from '../lib/tasks';
import { Clusters } from './clusters';
import styles from './home.module.css';
import { RunningOperations } from './operations';

const MOST_COUNTED = 100;
const DAY_SECONDS = 86_400;

/** What needs somebody first, then what happens by itself. */
export function HomePage() {
  const { name: catalog } = useCatalog();
  return (
    <Page title="Home">
      <Figures catalog={catalog} />
      <NeedsYou catalog={catalog} />
      <RunningOperations catalog={catalog} />
      <Queue catalog={catalog} />
      <Recent catalog={catalog} />
      <Clusters catalog={catalog} />
    </Page>
  );
}

function Figures({ catalog }: { catalog: string }) {
  const { data: beat } = usePulse();
  const { data: workers } = useOptimizers();
  const { data: commits } = useQuery(events(catalog, MOST_COUNTED));
  const now = useNow();
  const hour = commits?.items.filter((event) => secondsBetween(event.committed_at, now) < 3600) ?? [];
  const busy = workers?.filter((worker) => worker.jobs.length > 0).length ?? 0;
  const rows = hour.reduce((sum, event) => sum + event.added_rows, 0);
  const more = hour.length === MOST_COUNTED;
  return (
    <div className={styles.figures}>
      <Figure name="Commits in the last hour" value={more ? `${MOST_COUNTED}+` : <Count value={hour.length} />} note={`${many(rows, 'row')} added${more ? ' by the last of them' : ''}`} />
      <Figure
        name="Jobs"
        value={<Count value={(beat?.counts.running ?? 0) + (beat?.counts.committing ?? 0)} />}
        note={`running, ${beat?.counts.pending ?? 0} queued`}
        to={paths.jobs()}
      />
      {workers !== undefined && (
        <Figure name="Optimizers" value={<Count value={workers.length} />} note={`${busy} busy`} to={paths.optimizers()} />
      )}
      <Figure
        name="Succeeded jobs"
        value={<Count value={beat?.counts.succeeded ?? 0} />}
        note={`${beat?.counts.failed ?? 0} failed`}
        to={`${paths.jobs()}?show=history`}
      />
    </div>
  );
}

function Figure({ name, value, note, to }: { name: string; value: ReactNode; note: string; to?: string }) {
  return (
    <div className={styles.figure}>
      <div className={styles.figureName}>{to === undefined ? name : <Link to={to}>{name}</Link>}</div>
      <div className={styles.figureLine}>
        <span className={styles.figureValue}>{value}</span>
        <span className="dim">{note}</span>
      </div>
    </div>
  );
}

interface Need {
  key: string;
  title: ReactNode;
  text: ReactNode;
  action: ReactNode;
  tone: 'warn' | 'bad';
}

function NeedsYou({ catalog }: { catalog: string }) {
  const needs = useNeeds(catalog);
  if (needs === undefined) return null;
  if (needs.length === 0) {
    return <Note title="All clear">Failed jobs, out-of-sync Hive tables and jobs waiting with no optimizer appear here.</Note>;
  }
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

const RECENT: Column<CommitEvent>[] = [
  { key: 'table', title: 'Table', cell: (event) => <span className="mono">{ownerOf(event.table)}</span> },
  { key: 'what', title: 'What happened', cell: (event) => <span className="wrap-anywhere">{describeCommit(event)}</span>, wide: true },
  { key: 'bytes', title: 'Written', cell: (event) => <Bytes value={event.added_bytes || null} />, right: true },
  { key: 'engine', title: 'By', cell: (event) => <span className="dim">{engineText(event.engine ?? event.writer_id ?? '–')}</span> },
  { key: 'at', title: 'When', cell: (event) => <When at={event.committed_at} />, right: true },
];

function Recent({ catalog }: { catalog: string }) {
  const { data, error } = useQuery(events(catalog, 12));
  return (
    <DataTable
      name="recent changes"
      title="Recent changes"
      columns={RECENT}
      rows={data?.items}
      error={error}
      id={(event) => String(event.id)}
      link={(event) => paths.table(catalog, ownerOf(event.table))}
      empty={
        <Empty title={`Nothing has been committed to ${catalog} yet`} action={<Open to={paths.hive(catalog)} label="View Hive tables" />}>
          Upgrade a Hive table in place, create a keyed table, or connect Spark and write.
        </Empty>
      }
    />
  );
}

