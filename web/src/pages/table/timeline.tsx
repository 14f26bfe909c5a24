import { useQuery } from '@tanstack/react-query';
import { useRef, type KeyboardEvent } from 'react';
import { Link } from 'react-router';

import { tableHistory, tableJobs } from '../../api/queries';
import type { CommitEvent, Job } from '../../api/types';
import { Bytes, Count, useNow, When } from '../../components/figures';
import { ProblemNote } from '../../components/notes';
import { Panel } from '../../components/panel';
import { axisOf, place, ticks, tickText, type Axis } from '../../lib/axis';
import { count, engineText, many, moment } from '../../lib/format';
import { paths } from '../../lib/paths';
import { useUrlState } from '../../lib/url-state';
import { ChangeList } from './changes';
import { SummaryFacts } from './snapshot-details';
import styles from './timeline.module.css';

const TICKS = 9;

/** Shape and tone of a commit by what it did. */
function shapeOf(event: CommitEvent): string {
  if (event.snapshot_id === null) return event.operation === 'alter' ? 'alter' : 'other';
  if (event.operation === 'append') return 'append';
  return event.operation === 'delete' ? 'delete' : 'overwrite';
}

const LEGEND: [string, string][] = [
  ['append', 'append'],
  ['overwrite', 'overwrite or merge'],
  ['delete', 'delete'],
  ['alter', 'schema change'],
  ['other', 'other'],
];

/** Commits of all stores, and jobs, on one time axis. */
export function Timeline({ catalog, table }: { catalog: string; table: string }) {
  const history = useQuery(tableHistory(catalog, table));
  const { data: jobs } = useQuery(tableJobs(catalog, table));
  const [get, set] = useUrlState();
  const chosen = get('commit') === undefined ? undefined : Number(get('commit'));
  const choose = (id: number) => set({ commit: String(id) });
  const events = history.data?.items;
  if (history.error && events === undefined) return <ProblemNote error={history.error} what="no history" />;
  if (events === undefined || events.length === 0) return null;
  const open = events.find((event) => event.id === chosen);
  return (
    <Panel title="Timeline" aside={<Legend />}>
      <Lanes events={events} jobs={jobs?.items ?? []} chosen={chosen} choose={choose} />
      {open ? (
        <Commit catalog={catalog} event={open} />
      ) : (
        <div className={styles.hint}>
          {many(events.length, 'commit')}. Choose one to see who wrote what; arrow keys go from one to the next.
        </div>
      )}
    </Panel>
  );
}

function Legend() {
  return (
    <span className={styles.legend}>
      {LEGEND.map(([shape, label]) => (
        <span key={shape} className={styles.legendItem}>
          <i className={styles.shape} data-shape={shape} aria-hidden />
          {label}
        </span>
      ))}
    </span>
  );
}

interface LanesProps {
  events: CommitEvent[];
  jobs: Job[];
  chosen: number | undefined;
  choose: (id: number) => void;
}

const laneOf = (event: CommitEvent): string => /\.(base|change)$/.exec(event.table)?.[1] ?? 'table';

function Lanes({ events, jobs, chosen, choose }: LanesProps) {
  const box = useRef<HTMLDivElement>(null);
  const ran = jobs.filter((job) => job.leased_at !== null);
  const sorted = [...events].sort((one, other) => one.committed_at.localeCompare(other.committed_at));
  const axis = axisOf([...sorted.map((event) => Date.parse(event.committed_at)), ...ran.map((job) => Date.parse(job.leased_at ?? '')), ...ran.flatMap((job) => (job.ended_at === null ? [] : [Date.parse(job.ended_at)]))]);
  const lanes = ['change', 'base', 'table'].filter((lane) => sorted.some((event) => laneOf(event) === lane));
  const move = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const here = sorted.findIndex((one) => one.id === chosen);
    const to = sorted[Math.min(sorted.length - 1, Math.max(0, here + step))];
    if (to === undefined) return;
    choose(to.id);
    box.current?.querySelector<HTMLElement>(`[data-event="${to.id}"]`)?.focus();
  };
  // One stop for the tab key; arrows do the rest.
  const stop = chosen ?? sorted.at(-1)?.id;
  return (
    <div className={styles.lanes} ref={box} onKeyDown={move} role="group" aria-label="commits in time">
      {lanes.map((lane) => (
        <div key={lane} className={styles.lane}>
          <span className={`mono ${styles.laneName}`}>{lane}</span>
          <div className={styles.track}>
            {sorted
              .filter((event) => laneOf(event) === lane)
              .map((event) => (
                <button
                  key={event.id}
                  type="button"
                  data-event={event.id}
                  tabIndex={event.id === stop ? 0 : -1}
                  className={styles.mark}
                  aria-pressed={event.id === chosen}
                  aria-label={`${event.operation} on ${lane}, ${moment(event.committed_at)}, ${count(event.added_rows)} rows added`}
                  title={`${event.operation}, ${moment(event.committed_at)}\n${count(event.added_rows)} rows added, ${count(event.removed_rows)} removed`}
                  style={{ left: `${place(axis, Date.parse(event.committed_at))}%` }}
                  onClick={() => choose(event.id)}
                >
                  <i className={styles.shape} data-shape={shapeOf(event)} style={{ scale: scaleOf(event) }} aria-hidden />
                </button>
              ))}
          </div>
        </div>
      ))}
      {ran.length > 0 && (
        <div className={styles.lane}>
          <span className={`mono ${styles.laneName}`}>jobs</span>
          <div className={styles.track}>
            {ran.map((job) => (
              <JobSpan key={job.id} job={job} axis={axis} />
            ))}
          </div>
        </div>
      )}
      <div className={styles.lane}>
        <span className={styles.laneName} />
        <div className={styles.axis}>
          {ticks(axis, TICKS).map((tick) => (
            <span key={tick} style={{ left: `${place(axis, tick)}%` }}>
              {tickText(tick, axis)}
            </span>
          ))}
        </div>
      </div>
    </div>
  );
}

/** A commit of a million rows is drawn larger than one of ten, not a hundred thousand times. */
function scaleOf(event: CommitEvent): number {
  const rows = event.added_rows + event.removed_rows;
  return 0.8 + Math.min(0.8, Math.log10(rows + 1) / 8);
}

function JobSpan({ job, axis }: { job: Job; axis: Axis }) {
  const now = useNow();
  const from = place(axis, Date.parse(job.leased_at ?? job.created_at));
  const to = place(axis, Math.min(axis.to, job.ended_at === null ? now : Date.parse(job.ended_at)));
  return (
    <Link
      to={paths.job(job.id)}
      tabIndex={-1}
      className={styles.job}
      data-status={job.status}
      style={{ left: `${from}%`, width: `max(5px, ${Math.max(0, to - from)}%)` }}
      title={`${job.kind}, ${job.status}`}
      aria-label={`${job.kind} job, ${job.status}`}
    />
  );
}

function Commit({ catalog, event }: { catalog: string; event: CommitEvent }) {
  const table = event.table.replace(/\.(base|change)$/, '');
  const first = [
    { name: 'committed', value: <When at={event.committed_at} /> },
    { name: 'did', value: `${event.operation} on ${laneOf(event)}` },
    { name: 'by', value: engineText(event.engine ?? event.writer_id ?? 'unknown') },
    ...(event.writer_id === null ? [] : [{ name: 'writer and batch', value: <span className="mono">{`${event.writer_id} ${event.batch_id ?? ''}`}</span> }]),
    { name: 'rows', value: <Change added={event.added_rows} removed={event.removed_rows} /> },
    { name: 'files', value: <Change added={event.added_files} removed={event.removed_files} /> },
    { name: 'bytes added', value: <Bytes value={event.added_bytes} /> },
    ...(event.snapshot_id === null
      ? []
      : [
          {
            name: 'snapshot',
            value: (
              <Link className="mono" to={`${paths.table(catalog, table, 'snapshots')}&snapshot=${event.snapshot_id}`} preventScrollReset>
                {event.snapshot_id}
              </Link>
            ),
          },
        ]),
  ];
  const own = Object.fromEntries(Object.entries(event.summary).filter(([key]) => key.startsWith('firn.')));
  return (
    <div className={styles.commit}>
      <SummaryFacts first={first} summary={own} />
      <div className={styles.changes}>
        <ChangeList changes={event.changes} />
        <Link className="inline" to={`${paths.table(catalog, table, 'history')}&entry=${event.id}`} preventScrollReset>
          Compare, tag or roll back
        </Link>
      </div>
    </div>
  );
}

function Change({ added, removed }: { added: number; removed: number }) {
  return (
    <>
      +<Count value={added} /> −<Count value={removed} />
    </>
  );
}
