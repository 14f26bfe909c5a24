import { IconCircleDashed, IconCircleXFilled, IconLoader2, IconPlayerPauseFilled } from '@tabler/icons-react';
import type { ReactNode } from 'react';

import type { Stream } from '../api/types';
import { Mark } from './status-icons';

const LOOKS = {
  running: { icon: IconLoader2, tone: 'accent', says: 'running', breathes: true },
  waiting: { icon: IconCircleDashed, tone: 'dim', says: 'waiting' },
  failing: { icon: IconCircleDashed, tone: 'warn', says: 'waiting after a failure' },
  paused: { icon: IconPlayerPauseFilled, tone: 'dim', says: 'paused' },
  stopped: { icon: IconCircleXFilled, tone: 'bad', says: 'stopped' },
};

/** Where a stream stands; only a stopped one needs a person. */
export function StreamMark({ stream, children }: { stream: Pick<Stream, 'status' | 'failures'>; children?: ReactNode }) {
  const { status, failures } = stream;
  const known = Object.entries(LOOKS).find(([name]) => name === (status === 'waiting' && failures > 0 ? 'failing' : status));
  return <Mark look={known?.[1] ?? { ...LOOKS.waiting, says: status }}>{children}</Mark>;
}
