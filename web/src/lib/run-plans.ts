/** What the next run of a pipeline's table does, in words. */
import type { InputPlan, RunPlan } from '../api/types';
import { bytes, many } from './format';

const MODES: Record<string, string> = {
  incremental: 'what the changes affect',
  full: 'all rows',
  append: 'the rows of new rows',
  nothing: 'nothing',
};

export const plannedMode = (plan: RunPlan): string => MODES[plan.mode] ?? plan.mode;

/** The changes of an input since the checkpoint, as far as they are known. */
export function plannedChanges({ is_changed: isChanged, commits, files, bytes: size, rows, total_bytes: total }: InputPlan): string {
  if (total == null) return 'does not exist';
  if (isChanged === null) return `all ${bytes(total)}`;
  if (!isChanged) return 'not changed';
  if (commits == null) return 'changed';
  const counts = [...(files == null ? [] : [many(files, 'file')]), ...(size == null ? [] : [bytes(size)]), ...(rows == null ? [] : [many(rows, 'row')])];
  return `${many(commits, 'commit')} (${counts.join(', ')})`;
}
