/** Commits in the words of a table's owner, who knows `orders`, not its stores. */
import type { CommitEvent, JobKind } from '../api/types';
import { many } from './format';

/** What a commit of a job did. */
const BY_JOB: Record<JobKind, string> = {
  merge: 'merged pending changes',
  rewrite: 'packed small files',
  compact: 'packed files of pending changes',
  'rewrite-deletes': 'packed delete files',
  'rewrite-manifests': 'rewrote manifests',
  clean: 'removed merged changes',
  expire: 'expired snapshots',
  'remove-orphans': 'removed orphans',
  ttl: 'deleted old rows',
  statistics: 'updated statistics',
  tags: 'changed tags',
  keys: 'checked keys',
  image: 'built an image',
  sync: 'synced from Hive',
  publish: 'published to Hive',
  convert: 'copied from Hive',
  pipeline: 'ran its pipeline',
};
/** Jobs whose commits change no row, although they add and remove rows of files. */
const SAME_ROWS: readonly JobKind[] = ['rewrite', 'compact', 'rewrite-deletes', 'rewrite-manifests', 'clean'];

/** The table that a commit's store belongs to. */
export function ownerOf(table: string): string {
  return table.replace(/(\..+)\.(base|change)$/, '$1');
}

/** A commit as a phrase, such as "merged pending changes: +4,051 −1,875 rows". */
export function describeCommit(event: CommitEvent): string {
  const kind = event.job_kind;
  if (kind !== null) return SAME_ROWS.includes(kind) ? BY_JOB[kind] : withRows(BY_JOB[kind], event);
  if (event.snapshot_id !== null && event.table.endsWith('.change') && event.operation === 'append') {
    return `upserted or deleted ${many(event.added_rows, 'row')}`;
  }
  return event.headline;
}

function withRows(phrase: string, event: CommitEvent): string {
  const added = event.added_rows > 0 ? [`+${event.added_rows.toLocaleString('en')}`] : [];
  const removed = event.removed_rows > 0 ? [`−${event.removed_rows.toLocaleString('en')}`] : [];
  const counts = [...added, ...removed];
  return counts.length === 0 ? phrase : `${phrase}: ${counts.join(' ')} rows`;
}

/** What one job or one writer did: the commit that says most about it, and what to say. */
export interface Activity {
  event: CommitEvent;
  table: string;
  text: string;
  /** What was written, by all commits of it together. */
  bytes: number;
}

/** Commits as people see them: those of one job on one table are one line, at the place of the newest. */
export function groupCommits(events: readonly CommitEvent[]): Activity[] {
  const groups = new Map<string, CommitEvent[]>();
  for (const event of events) {
    if (event.table.endsWith('.change') && event.topics.includes('life')) continue; // created with its table
    const key = event.job_id === null ? `commit ${event.id}` : `${event.job_id} ${ownerOf(event.table)}`;
    groups.set(key, [...(groups.get(key) ?? []), event]);
  }
  return [...groups.values()].flatMap((group) => {
    const event = group.find((item) => !item.table.endsWith('.change')) ?? group[0];
    if (event === undefined) return [];
    const bytes = group.reduce((sum, item) => sum + item.added_bytes, 0);
    return [{ event, table: ownerOf(event.table), text: describeGroup(event, group), bytes }];
  });
}

function describeGroup(event: CommitEvent, group: readonly CommitEvent[]): string {
  if (event.job_kind !== 'merge') return describeCommit(event);
  // The clean, a merge's second commit, removes the changes that were merged.
  const merged = group.filter((item) => item.table.endsWith('.change')).reduce((sum, item) => sum + item.removed_rows, 0);
  return merged > 0 ? `merged ${many(merged, 'change')}` : describeCommit(event);
}
