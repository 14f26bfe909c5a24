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
    says: 'An optimizer merges the pending changes into the base store. Readers see the same rows throughout.',
  },
  rewrite: {
    label: 'Rewrite',
    says: 'An optimizer packs small files into larger ones. Rows do not change; old files stay while snapshots need them.',
  },
  compact: {
    label: 'Compact',
    says: 'An optimizer packs the small files of the change store. Pending changes stay pending, in fewer files.',
  },
  'rewrite-deletes': {
    label: 'Rewrite deletes',
    says: 'An optimizer packs delete files and drops those without effect. Readers see the same rows.',
  },
  'rewrite-manifests': {
    label: 'Rewrite manifests',
    says: 'An optimizer writes fewer manifests, sorted by partition, so that queries plan faster. No data file is touched.',
  },
  clean: {
    label: 'Clean change store',
    says: 'An optimizer removes merged changes from the change store. Readers see the same rows.',
  },
  expire: {
    label: 'Expire',
    says: 'An optimizer removes old snapshots and the files that only they need. Time travel to them ends; this cannot be undone.',
  },
  'remove-orphans': {
    label: 'Remove orphans',
    says: 'An optimizer moves unreferenced files at the table’s location to quarantine. You can restore them for a while; then they are deleted.',
  },
  ttl: {
    label: 'Delete old rows',
    says: 'An optimizer deletes rows that are older than the policy allows. Time travel reaches them until their snapshots expire.',
  },
  statistics: {
    label: 'Update statistics',
    says: 'An optimizer counts distinct values, which helps engines plan joins. No data file is touched.',
  },
  tags: {
    label: 'Create scheduled tag',
    says: 'The server creates the tags that the policy schedules, and drops expired ones.',
  },
  keys: {
    label: 'Check keys',
    says: 'An optimizer reads the key columns of all rows in base and counts the keys that occur more than once. Nothing is changed.',
  },
  image: {
    label: 'Build image',
    says: 'An optimizer builds the image that engines read, if it is too large for the server. No store changes.',
  },
  sync: {
    label: 'Sync',
    says: 'Firn brings changes of Hive jobs into the table.',
  },
  publish: {
    label: 'Publish',
    says: 'An optimizer writes changed partitions in Hive’s format, and the server points the metastore at them.',
  },
  convert: {
    label: 'Convert',
    says: 'Spark copies all rows of a Hive table into this one. Firn does not sync the two afterwards.',
  },
  pipeline: {
    label: 'Run',
    says: 'An optimizer computes the rows of a pipeline’s table that changes of its inputs affect, and commits them once.',
  },
};

export const JOB_KINDS = Object.keys(KINDS) as JobKind[];
/** Jobs that begin with a look at Hive, which the Hive actions start, and runs of pipelines. */
const STARTED_ELSEWHERE: readonly JobKind[] = ['sync', 'publish', 'convert', 'pipeline'];
/** Shown as buttons of their own; the others are in a menu. */
const FIRST: readonly JobKind[] = ['merge', 'rewrite', 'expire'];

/** The kinds that fit a table, told by what may and what may not be started now: buttons first, then the menu. */
export function kindsOf(table: { allowed_actions: readonly string[]; unavailable_actions: Readonly<Record<string, string>> }): { first: StartableKind[]; more: StartableKind[] } {
  const fits = JOB_KINDS.filter(isStartable).filter((kind) => table.allowed_actions.includes(kind) || kind in table.unavailable_actions);
  return { first: fits.filter((kind) => FIRST.includes(kind)), more: fits.filter((kind) => !FIRST.includes(kind)) };
}

const isStartable = (kind: JobKind): kind is StartableKind => !STARTED_ELSEWHERE.includes(kind);
