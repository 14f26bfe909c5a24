import { IconBan, IconCheck, IconCircleCheckFilled, IconCircleDashed, IconCircleXFilled, IconClockExclamation, IconHandStop, IconLoader2, IconPlayerPauseFilled, IconRefreshAlert } from '@tabler/icons-react';

import { Mark } from './status-icons';

const LOOKS = {
  new: { icon: IconCircleDashed, tone: 'dim', says: 'not built yet' },
  current: { icon: IconCircleCheckFilled, tone: 'ok', says: 'current' },
  behind: { icon: IconClockExclamation, tone: 'accent', says: 'inputs have changed' },
  running: { icon: IconLoader2, tone: 'accent', says: 'running', breathes: true },
  rebuild: { icon: IconRefreshAlert, tone: 'accent', says: 'next run is full' },
  held: { icon: IconHandStop, tone: 'warn', says: 'a run waits for approval' },
  failed: { icon: IconCircleXFilled, tone: 'bad', says: 'last run failed' },
};

/** Where a table of a pipeline stands; a failed one and one whose run waits for approval need a person. */
export function PipelineMark({ state }: { state: string }) {
  const known = Object.entries(LOOKS).find(([name]) => name === state);
  return <Mark look={known?.[1] ?? { ...LOOKS.new, says: state }} />;
}

const BACKFILLS = {
  active: { icon: IconLoader2, tone: 'accent', says: 'active', breathes: true },
  paused: { icon: IconPlayerPauseFilled, tone: 'accent', says: 'paused' },
  finished: { icon: IconCheck, tone: 'ok', says: 'finished' },
  canceled: { icon: IconBan, tone: 'dim', says: 'canceled' },
  failed: { icon: IconCircleXFilled, tone: 'bad', says: 'failed' },
};

/** Where a backfill stands; only a failed one needs a person. */
export function BackfillMark({ status }: { status: string }) {
  const known = Object.entries(BACKFILLS).find(([name]) => name === status);
  return <Mark look={known?.[1] ?? { ...LOOKS.new, says: status }} />;
}
