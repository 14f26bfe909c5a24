import { IconCircleCheckFilled, IconCircleDashed, IconCircleXFilled, IconClockExclamation, IconLoader2, IconRefreshAlert } from '@tabler/icons-react';

import { Mark } from './status-icons';

const LOOKS = {
  new: { icon: IconCircleDashed, tone: 'dim', says: 'not built yet' },
  current: { icon: IconCircleCheckFilled, tone: 'ok', says: 'current' },
  behind: { icon: IconClockExclamation, tone: 'accent', says: 'inputs have changed' },
  running: { icon: IconLoader2, tone: 'accent', says: 'running', breathes: true },
  rebuild: { icon: IconRefreshAlert, tone: 'accent', says: 'next run is full' },
  held: { icon: IconClockExclamation, tone: 'accent', says: 'a run waits for approval' },
  failed: { icon: IconCircleXFilled, tone: 'bad', says: 'last run failed' },
};

/** Where a table of a pipeline stands; a failed one and one whose run waits for approval need a person. */
export function PipelineMark({ state }: { state: string }) {
  const known = Object.entries(LOOKS).find(([name]) => name === state);
  return <Mark look={known?.[1] ?? { ...LOOKS.new, says: state }} />;
}
