/** Jobs that ended, hour by hour, as bars. */
import type { Status } from '../api/types';
import { bytes, many } from './format';

export type Hour = Status['hours'][number];

export interface HourBar {
  key: string;
  /** Per cent of the highest bar. */
  succeeded: number;
  failed: number;
  canceled: number;
  text: string;
  /** Under every sixth bar, by the viewer's clock. */
  tick: string | null;
}

export const ended = (hour: Hour): number => hour.succeeded + hour.failed + hour.canceled;

/** Bars in the order of time; none if nothing has ended. */
export function barsOf(hours: readonly Hour[]): HourBar[] {
  const most = Math.max(0, ...hours.map(ended));
  if (most === 0) return [];
  const share = (jobs: number) => (jobs / most) * 100;
  return hours.map((hour, index) => ({
    key: hour.begins,
    succeeded: share(hour.succeeded),
    failed: share(hour.failed),
    canceled: share(hour.canceled),
    text: textOf(hour),
    tick: (hours.length - 1 - index) % 6 === 5 ? minute(hour.begins) : null,
  }));
}

const minute = (at: string | number): string => new Date(at).toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' });

function textOf(hour: Hour): string {
  const from = minute(hour.begins);
  const to = minute(new Date(hour.begins).getTime() + 3_600_000);
  const parts = [many(hour.succeeded, 'job') + ' succeeded'];
  if (hour.failed > 0) parts.push(`${hour.failed} failed`);
  if (hour.canceled > 0) parts.push(`${hour.canceled} canceled`);
  if (hour.bytes_freed > 0) parts.push(`${bytes(hour.bytes_freed)} freed`);
  return `${from} to ${to}: ${parts.join(', ')}`;
}
