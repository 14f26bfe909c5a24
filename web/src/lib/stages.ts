/** The way of a job: which steps lie behind it, which one it is at, and which it will not reach. */
import type { Job } from '../api/types';

export interface Stage {
  name: string;
  at: string | null;
  state: 'done' | 'now' | 'ahead' | 'bad';
}

type Facts = Pick<Job, 'status' | 'created_at' | 'leased_at' | 'ended_at' | 'committed_snapshot_id'>;

const ENDS: Partial<Record<Job['status'], string>> = { succeeded: 'succeeded', failed: 'failed', canceled: 'canceled', unknown: 'outcome unknown' };

/** DryRunResult, running, committing and the end, as far as the job has told. */
export function stagesOf({ status, created_at: created, leased_at: leased, ended_at: ended, committed_snapshot_id: snapshot }: Facts): Stage[] {
  const committed = snapshot !== null || status === 'succeeded';
  const over = status in ENDS;
  const began = leased !== null && status !== 'pending';
  return [
    { name: 'planned', at: created, state: 'done' },
    { name: 'waiting', at: null, state: status === 'pending' ? 'now' : 'done' },
    { name: 'running', at: began ? leased : null, state: status === 'running' ? 'now' : began ? 'done' : 'ahead' },
    { name: 'committing', at: null, state: status === 'committing' ? 'now' : status === 'unknown' ? 'bad' : committed ? 'done' : 'ahead' },
    { name: ENDS[status] ?? 'succeeded', at: ended, state: !over ? 'ahead' : status === 'succeeded' ? 'done' : 'bad' },
  ];
}
