import { IconBellOff, IconCheck, IconCircleDashed, IconCircleXFilled } from '@tabler/icons-react';

import type { Notification } from '../../api/types';
import { When } from '../../components/figures';
import { Mark } from '../../components/status-icons';

const LOOKS = {
  waiting: { icon: IconCircleDashed, tone: 'accent', says: 'being sent' },
  sent: { icon: IconCheck, tone: 'ok', says: 'sent' },
  silenced: { icon: IconBellOff, tone: 'dim', says: 'silenced' },
  failed: { icon: IconCircleXFilled, tone: 'bad', says: 'not sent' },
};

/** How far a message is, with the reason why it has not arrived. */
export function Delivery({ message }: { message: Notification }) {
  const state = message.state;
  const retries = message.state === 'waiting' && message.attempts > 0;
  return (
    <div style={{ minWidth: message.error === null ? 90 : 190 }}>
      <Mark look={{ ...LOOKS[state], ...(retries ? { tone: 'warn', says: 'will be tried again' } : {}) }} />
      {message.error !== null && <div className="wrap-anywhere dim">{message.error}</div>}
      {retries && message.next_attempt_at !== null && (
        <div className="dim">
          attempt {message.attempts + 1} <When at={message.next_attempt_at} />
        </div>
      )}
    </div>
  );
}
