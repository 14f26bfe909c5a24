/** The kinds of jobs, as people ask for them. */
import type { JobKind, StartJob } from '../api/types';

/** A kind that people start by themselves. */
export type StartableKind = StartJob['kind'];

interface Kind {
  label: string;
  says: string;
}

export const KINDS: Record<JobKind, Kind> = {
  merge: {
    label: 'Merge now',
    says: 'An optimizer brings the pending changes into the base store. Readers see the same rows before, during and after it.',
  },
  rewrite: {
    label: 'Rewrite',
    says: 'An optimizer packs small files into larger ones. Rows do not change; the old files stay for as long as snapshots need them.',
  },
  compact: {
    label: 'Compact',
    says: 'An optimizer packs the small files of the change store. What is pending stays pending, in fewer files.',
  },
  'rewrite-deletes': {
    label: 'Rewrite deletes',
    says: 'An optimizer packs delete files, and drops those that delete nothing any more. Readers see the same rows.',
  },
  'rewrite-manifests': {
    label: 'Rewrite manifests',
    says: 'An optimizer writes the lists of files anew, fewer and by partition, so that queries plan faster. No data file is touched.',
  },
  clean: {
    label: 'Clean change store',
    says: 'An optimizer takes changes that are merged already out of the change store. Readers see the same rows.',
  },
  expire: {
    label: 'Expire',
    says: 'Old snapshots are removed, and with them the files that Firn wrote and nothing else needs. Time travel to them ends; this cannot be undone.',
  },
  'remove-orphans': {
    label: 'Remove orphans',
    says: 'An optimizer looks for files at the table’s place that nothing refers to. They are set aside, can be put back for a while, and are deleted after that.',
  },
  ttl: {
    label: 'Delete old rows',
    says: 'Rows that are older than the policy keeps are deleted. Time travel reaches them until their snapshots expire.',
  },
  statistics: {
    label: 'Update statistics',
    says: 'An optimizer counts distinct values, which helps engines to plan joins. No data file is touched.',
  },
  tags: {
    label: 'Create scheduled tag',
    says: 'The tags that the policy asks for are made, and those whose time is over are dropped.',
  },
  keys: {
    label: 'Check keys',
    says: 'An optimizer reads the key columns of all rows in base and counts the keys that occur more than once. Nothing is changed.',
  },
  sync: {
    label: 'Sync',
    says: 'What Hive-side writers did is brought into the table.',
  },
  publish: {
    label: 'Publish',
    says: 'Partitions that differ from what Hive lists are written as Hive reads them, and the metastore is pointed at them.',
  },
  convert: {
    label: 'Convert',
    says: 'A rewrite: Spark reads all rows of a Hive table and writes them into this one, which does not follow it afterwards.',
  },
};

export const JOB_KINDS = Object.keys(KINDS) as JobKind[];
/** Jobs that begin with a look at Hive; the Hive actions start them. */
const AFTER_HIVE: readonly JobKind[] = ['sync', 'publish', 'convert'];
/** Shown as buttons of their own; the others are in a menu. */
const FIRST: readonly JobKind[] = ['merge', 'rewrite', 'expire'];

/** The kinds that fit a table, told by what may and what may not be started now: buttons first, then the menu. */
export function kindsOf(table: { allowed_actions: readonly string[]; unavailable_actions: Readonly<Record<string, string>> }): { first: StartableKind[]; more: StartableKind[] } {
  const fits = JOB_KINDS.filter(isStartable).filter((kind) => table.allowed_actions.includes(kind) || kind in table.unavailable_actions);
  return { first: fits.filter((kind) => FIRST.includes(kind)), more: fits.filter((kind) => !FIRST.includes(kind)) };
}

const isStartable = (kind: JobKind): kind is StartableKind => !AFTER_HIVE.includes(kind);
