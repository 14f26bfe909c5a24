/** Groups of optimizers: what stands in them and what their slots do. */
import type { Group, Optimizer } from '../api/types';

export interface GroupLoad {
  group: Group;
  optimizers: number;
  slots: number;
  busy: number;
}

/** Silent ones hold nothing, and those that drain take nothing: their free slots are none. */
function slotsOf(optimizer: Optimizer): number {
  if (optimizer.silent) return 0;
  return optimizer.draining ? optimizer.jobs.length : optimizer.slots;
}

/** Every group with its load; also one that only an optimizer names. */
export function loadsOf(groups: readonly Group[], optimizers: readonly Optimizer[]): GroupLoad[] {
  const unnamed = [...new Set(optimizers.map(({ group }) => group))].filter((name) => !groups.some((group) => group.name === name));
  const all = [...groups, ...unnamed.map((name) => ({ name, description: '', reserved_slots: 1, catalog_quota: 1, created_at: null, wanted: null, working: 0 }))];
  return all.map((group) => {
    const members = optimizers.filter((optimizer) => optimizer.group === group.name && !optimizer.silent);
    return {
      group,
      optimizers: members.length,
      slots: members.reduce((sum, optimizer) => sum + slotsOf(optimizer), 0),
      busy: members.reduce((sum, optimizer) => sum + optimizer.jobs.length, 0),
    };
  });
}

/** Why a group cannot be dropped as far as can be seen here; the server decides. */
export function whyNotDropped({ group, optimizers }: GroupLoad): string | null {
  if (group.name === 'default') return 'The group default is always there.';
  if (group.created_at === null) return 'Nothing is set for it: it is gone when its last optimizer is.';
  return optimizers > 0 ? 'Optimizers are registered in it: stop them first.' : null;
}
