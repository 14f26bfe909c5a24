import { useRef, type CSSProperties, type KeyboardEvent } from 'react';
import { Link } from 'react-router';

import type { CommitEvent, Job } from '../../api/types';
import { useNow } from '../../components/figures';
import { place, ticks, tickText, type Axis } from '../../lib/axis';
import { count, moment, span } from '../../lib/format';
import { paths } from '../../lib/paths';
import { axisFor, endOf, momentsOf, rowsOf } from '../../lib/timeline';
import styles from './timeline.module.css';

const TICKS = 9;
/** Per cent of the axis that a job takes at least, so that it can be hit. */
const NARROWEST = 0.6;
/** Wide enough for the name of its kind to stand in it. */
const NAMED = 7;

interface LanesProps {
  events: CommitEvent[];
  jobs: Job[];
  chosen: number | undefined;
  choose: (id: number) => void;
}

export const laneOf = (event: CommitEvent): string => /\.(base|change|quarantine)$/.exec(event.table)?.[1] ?? 'table';

/** One lane for each store and one for jobs. Arrow keys go through all of them in the order of time. */
export function Lanes({ events, jobs, chosen, choose }: LanesProps) {
  const box = useRef<HTMLDivElement>(null);
  const now = useNow();
  const moments = momentsOf(events, jobs);
  const axis = axisFor(moments, now);
  const lanes = ['change', 'base', 'quarantine', 'table'].filter((lane) => events.some((event) => laneOf(event) === lane));
  const move = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const focused = (document.activeElement as HTMLElement | null)?.dataset.moment;
    const here = moments.findIndex(({ key }) => key === focused);
    const to = moments[Math.min(moments.length - 1, Math.max(0, here + step))];
    if (to === undefined) return;
    if (to.commit !== undefined) choose(to.commit.id);
    box.current?.querySelector<HTMLElement>(`[data-moment="${to.key}"]`)?.focus();
  };
  // One stop for the tab key; arrows do the rest.
  const stop = (moments.find(({ key }) => key === `commit-${chosen}`) ?? moments.at(-1))?.key;
  return (
    <div className={styles.lanes} ref={box} onKeyDown={move} role="group" aria-label="commits and jobs in time">
      {lanes.map((lane) => (
        <div key={lane} className={styles.lane}>
          <span className={`mono ${styles.laneName}`}>{lane}</span>
          <div className={styles.track}>
            {[...events].reverse().map((event) => laneOf(event) === lane && <CommitMark key={event.id} event={event} axis={axis} chosen={chosen} choose={choose} stop={stop} />)}
          </div>
        </div>
      ))}
      {rowsOf(jobs, now, ((axis.to - axis.from) * NARROWEST) / 100).map((row, index) => (
        <div key={row[0]?.id} className={styles.lane}>
          <span className={`mono ${styles.laneName}`}>{index === 0 ? 'jobs' : ''}</span>
          <div className={styles.track}>
            {row.map((job) => (
              <JobSpan key={job.id} job={job} axis={axis} now={now} isStop={stop === `job-${job.id}`} />
            ))}
          </div>
        </div>
      ))}
      <div className={styles.lane}>
        <span className={styles.laneName} />
        <div className={styles.axis}>
          {ticks(axis, TICKS).map((tick) => (
            <span key={tick} style={{ '--at': place(axis, tick) } as CSSProperties}>
              {tickText(tick, axis)}
            </span>
          ))}
        </div>
      </div>
    </div>
  );
}

interface CommitMarkProps {
  event: CommitEvent;
  axis: Axis;
  chosen: number | undefined;
  choose: (id: number) => void;
  stop: string | undefined;
}

function CommitMark({ event, axis, chosen, choose, stop }: CommitMarkProps) {
  const key = `commit-${event.id}`;
  const rows = `${count(event.added_rows)} rows added`;
  return (
    <button
      type="button"
      data-moment={key}
      tabIndex={key === stop ? 0 : -1}
      className={styles.mark}
      aria-pressed={event.id === chosen}
      aria-label={`${event.operation} on ${laneOf(event)}, ${moment(event.committed_at)}, ${rows}`}
      title={`${event.operation}, ${moment(event.committed_at)}\n${rows}, ${count(event.removed_rows)} removed`}
      style={{ left: `${place(axis, Date.parse(event.committed_at))}%` }}
      onClick={() => choose(event.id)}
    >
      <i className={styles.shape} data-shape={shapeOf(event)} style={{ scale: scaleOf(event) }} aria-hidden />
    </button>
  );
}

/** Shape and tone of a commit by what it did. */
function shapeOf(event: CommitEvent): string {
  if (event.snapshot_id === null) return event.operation === 'alter' ? 'alter' : 'other';
  if (event.operation === 'append') return 'append';
  return event.operation === 'delete' ? 'delete' : 'overwrite';
}

/** A commit of a million rows is drawn larger than one of ten, not a hundred thousand times. */
function scaleOf(event: CommitEvent): number {
  const rows = event.added_rows + event.removed_rows;
  return 0.8 + Math.min(0.8, Math.log10(rows + 1) / 8);
}

/** A job from its start to its end; it opens when it is chosen. */
function JobSpan({ job, axis, now, isStop }: { job: Job; axis: Axis; now: number; isStop: boolean }) {
  const began = Date.parse(job.leased_at ?? '');
  const from = place(axis, began);
  const width = Math.max(NARROWEST, place(axis, endOf(job, now)) - from);
  const took = span(Math.max(0, (endOf(job, now) - began) / 1000));
  return (
    <Link
      to={paths.job(job.id)}
      data-moment={`job-${job.id}`}
      tabIndex={isStop ? 0 : -1}
      className={styles.job}
      data-status={job.status}
      style={{ left: `${from}%`, width: `${width}%` }}
      title={`${job.kind}, ${job.status}, ${took}\n${job.error ?? job.reason}`}
      aria-label={`${job.kind} job, ${job.status}, ${moment(job.leased_at ?? '')}, took ${took}`}
    >
      {width >= NAMED && <span aria-hidden>{job.kind}</span>}
    </Link>
  );
}
