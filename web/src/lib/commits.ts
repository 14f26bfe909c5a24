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
