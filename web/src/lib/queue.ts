/** The queue of background work, group by group. */
import { many, span } from './format';

export interface GroupQueue {
  name: string;
  slots: number;
  running: number;
  waiting: number;
  oldest_seconds: number | null;
}

export interface QueueNote {
  key: string;
  tone: 'info' | 'bad';
  title: string;
  text: string;
}

const wait = (jobs: number): string => `${many(jobs, 'job')} ${jobs === 1 ? 'waits' : 'wait'}`;

/** Groups with waiting jobs and no optimizer. */
export function stuck(groups: readonly GroupQueue[]): GroupQueue[] {
  return groups.filter(({ waiting, slots }) => waiting > 0 && slots === 0);
}

/** Notes that explain why no job runs, or why jobs wait: at most one for each group. */
export function whyNothingRuns(groups: readonly GroupQueue[]): QueueNote[] {
  if (groups.every(({ waiting, running }) => waiting === 0 && running === 0)) {
    return [{ key: '', tone: 'info', title: 'No jobs are queued or running', text: "Each table's page shows its next job, and why it is not due yet." }];
  }
  return groups.flatMap((group): QueueNote[] => {
    const { name, waiting, slots, running, oldest_seconds: oldest } = group;
    const since = oldest === null ? '' : `, the oldest for ${span(oldest)}`;
    if (waiting === 0) return [];
    if (slots === 0) {
      return [{ key: name, tone: 'bad', title: `${wait(waiting)}${since}: no optimizer of group ${name} is running`, text: start(name) }];
    }
    if (running >= slots) {
      return [{ key: name, tone: 'info', title: `${wait(waiting)} in group ${name}${since}: ${many(slots, 'slot')}, all in use`, text: 'They begin as slots become free.' }];
    }
    if (running > 0) return [];
    return [{ key: name, tone: 'info', title: `${wait(waiting)} in group ${name}${since} and will start in a moment`, text: `${many(slots, 'slot')} of it ${slots === 1 ? 'is' : 'are'} free.` }];
  });
}

function start(group: string): string {
  return `Start one with: firn optimizer${group === 'default' ? '' : ` --group ${group}`}`;
}

/** Per minute in words that small numbers keep: 0.4 jobs in an hour is not 0. */
export function perMinute(value: number): string {
  return value >= 10 ? String(Math.round(value)) : String(Number(value.toFixed(2)));
}

interface Done {
  kind: string;
  status: string;
  jobs: number;
}

/** Kinds that fail more often than they succeed, the worst first: those that the planner backs off from. */
export function failing(done: readonly Done[]): { kind: string; failed: number; succeeded: number }[] {
  const kinds = [...new Set(done.map(({ kind }) => kind))];
  const sum = (kind: string, status: string) => done.filter((item) => item.kind === kind && item.status === status).reduce((total, item) => total + item.jobs, 0);
  return kinds
    .map((kind) => ({ kind, failed: sum(kind, 'failed'), succeeded: sum(kind, 'succeeded') }))
    .filter(({ failed, succeeded }) => failed >= 2 && failed > succeeded)
    .sort((item, other) => other.failed - item.failed);
}
