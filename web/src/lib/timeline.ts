/** What the timeline of a table shows, in the order of time: commits and the jobs beside them. */
import type { CommitEvent, Job } from '../api/types';
import { axisOf, type Axis } from './axis';

export type Moment = { at: number; key: string; commit: CommitEvent; job?: never } | { at: number; key: string; job: Job; commit?: never };

/** Commits and started jobs, the oldest first. */
export function momentsOf(events: readonly CommitEvent[], jobs: readonly Job[]): Moment[] {
  const commits = events.map((commit): Moment => ({ at: Date.parse(commit.committed_at), key: `commit-${commit.id}`, commit }));
  const ran = jobs.flatMap((job): Moment[] => (job.leased_at === null ? [] : [{ at: Date.parse(job.leased_at), key: `job-${job.id}`, job }]));
  return [...commits, ...ran].sort((item, other) => item.at - other.at);
}

/** When a job ended, or its last attempt where it waits for another; now for one that goes on. */
export function endOf(job: Job, now: number): number {
  const ended = job.ended_at ?? (job.status === 'pending' ? (job.attempts.at(-1)?.ended_at ?? job.leased_at) : null);
  return ended === null ? now : Date.parse(ended);
}

/** The axis on which all of them find room. */
export function axisFor(moments: readonly Moment[], now: number): Axis {
  return axisOf(moments.flatMap((moment) => (moment.job === undefined ? [moment.at] : [moment.at, endOf(moment.job, now)])));
}

/** Jobs over as few rows as show each of them: two of a row never overlap, nor come closer than `gap`. */
export function rowsOf(jobs: readonly Job[], now: number, gap: number): Job[][] {
  const rows: { until: number; jobs: Job[] }[] = [];
  for (const job of [...jobs].sort((item, other) => Date.parse(item.leased_at ?? '') - Date.parse(other.leased_at ?? ''))) {
    const from = Date.parse(job.leased_at ?? '');
    const row = rows.find(({ until }) => until + gap <= from);
    if (row === undefined) rows.push({ until: endOf(job, now), jobs: [job] });
    else {
      row.until = endOf(job, now);
      row.jobs.push(job);
    }
  }
  return rows.map(({ jobs: inRow }) => inRow);
}
