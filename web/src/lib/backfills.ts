/** How fast a backfill gets on, and when it ends. Nothing here knows React. */
import type { Backfill } from '../api/types';
import { exact, many, secondsBetween, span } from './format';
import { firn } from './terminal';

/** How long a chunk takes: the median over the runs that have committed some, so that one pause does not count. */
export function secondsPerChunk({ created_at: created, chunks }: Pick<Backfill, 'created_at' | 'chunks'>): number | null {
  const ends = new Map<string, number>();
  for (const { done_at: at } of chunks) if (at !== null) ends.set(at, (ends.get(at) ?? 0) + 1);
  const paces: number[] = [];
  let before = created;
  for (const at of [...ends.keys()].sort((a, b) => Date.parse(a) - Date.parse(b))) {
    paces.push(Math.max(0, secondsBetween(before, at)) / (ends.get(at) ?? 1));
    before = at;
  }
  return paces.sort((a, b) => a - b)[Math.floor((paces.length - 1) / 2)] ?? null;
}

/** "12 of 30 chunks · 2 min a chunk · about 36 min left"; of one that does not go on only what is done. */
export function progressText(backfill: Backfill): string {
  const { done, total, status } = backfill;
  const parts = [`${exact(done)} of ${many(total, 'chunk')}`];
  const pace = secondsPerChunk(backfill);
  if (pace !== null) parts.push(`${span(pace)} a chunk`);
  if (pace !== null && status === 'active' && done < total) parts.push(`about ${span(pace * (total - done))} left`);
  return parts.join(' · ');
}

/** When an active backfill ends at its pace, in milliseconds; null while nothing can be said. */
export function estimatedEnd(backfill: Backfill, now: number): number | null {
  const pace = secondsPerChunk(backfill);
  if (pace === null || backfill.status !== 'active' || backfill.done >= backfill.total) return null;
  return now + pace * (backfill.total - backfill.done) * 1000;
}

/** What a run computes now; a replay has no condition. */
export function currentText({ chunks, where, beside, jobs }: Pick<Backfill, 'chunks' | 'where' | 'beside' | 'jobs'>): string {
  const running = chunks.filter(({ state }) => state === 'running');
  if (beside != null) return besideText(running.length, jobs?.length ?? 0, beside);
  const first = running[0];
  if (first === undefined) return '';
  if (where === null) return 'a run computes it';
  return running.length === 1 ? `a run computes ${first.condition}` : `a run computes ${many(running.length, 'chunk')}, from ${first.condition} on`;
}

/** "3 of up to 4 jobs beside the runs, with 2 chunks". */
function besideText(running: number, jobs: number, limit: number): string {
  const who = `${exact(jobs)} of up to ${many(limit, 'job')} beside the runs`;
  return running === 0 ? who : `${who}, with ${many(running, 'chunk')}`;
}

/** How long the chunks of one run take, unless somebody says otherwise. */
export const DEFAULT_MINUTES = 5;

/** What the form of a backfill says. Without a number of chunks the server chooses it. */
export interface BackfillFields {
  where: string;
  minutes: number;
  chunks: number | null;
  /** The jobs that compute the chunks beside the runs; null if the runs themselves do. */
  beside: number | null;
}

/** The command that requests the same backfill. */
export function backfillCommand(pipeline: string, table: string, { where, minutes, chunks, beside }: BackfillFields, server?: string): string {
  return firn('pipeline backfill', [pipeline, table], { where: where.trim(), chunk: minutes === DEFAULT_MINUTES ? null : `${minutes}min`, chunks, beside }, server);
}
